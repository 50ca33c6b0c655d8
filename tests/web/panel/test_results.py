"""Results of background plugins in the panel (vcp-core 1.10, 3.6): list, one, deletion; nothing outside (B3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.web.panel.visits import HOSTILE, Visits, is_harmless, text_of, visit


def write(home: Path, name: str, content: bytes | object) -> Path:
    path = home / "VCPAsyncResults" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_results_are_listed_shown_and_deleted_whoever_wrote_them(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        assert "还没有结果" in text_of(await panel.get("results"))
        assert "No results yet" in text_of(await panel.get("results", "en"))
        await panel.services.background_results.store("Video", "task-1", {"status": "Succeed", "message": "fertig"})
        write(tmp_path, "Other-x", {"a": 1})
        listed = text_of(await panel.get("results", "en"))
        assert "Video" in listed
        assert "task-1" in listed
        assert "server" in listed
        assert "others" in listed
        assert "fertig" in text_of(await panel.get("results/Video-task-1.json"))
        for name in ("Video-task-1.json", "Other-x.json"):
            assert (await panel.post(f"results/{name}")).status == 303
        assert "还没有结果" in text_of(await panel.get("results"))
        assert not list((tmp_path / ".vcp" / "background_results").iterdir())
        assert (await panel.post("results/Video-task-1.json")).status == 404

    visit(tmp_path, test)


@pytest.mark.parametrize("name", ["..", "../config.env", "config.env", ".x.json", "a\\b.json", "x" * 300 + ".json"])
def test_names_that_are_none_lead_nowhere(tmp_path: Path, name: str) -> None:
    async def test(panel: Visits) -> None:
        write(tmp_path, "a", {})
        assert (await panel.get(f"results/{name}")).status == 404
        assert (await panel.post(f"results/{name}")).status == 404
        assert (tmp_path / "config.env").exists()

    visit(tmp_path, test)


def test_links_are_neither_listed_shown_nor_deleted(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        write(tmp_path, "a", {})
        link = tmp_path / "VCPAsyncResults" / "link.json"
        link.symlink_to(tmp_path / "config.env")
        assert "link" not in text_of(await panel.get("results"))
        assert (await panel.get("results/link.json")).status == 500
        assert (await panel.post("results/link.json")).status == 404
        assert link.is_symlink()

    visit(tmp_path, test)


def test_hostile_and_broken_results_are_text(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        name = f"{HOSTILE.replace('/', '_')}-x"
        write(tmp_path, name, {HOSTILE: HOSTILE})
        write(tmp_path, "broken", b"\xff{half")
        write(tmp_path, "deep", b"[" * 50_000)
        for page in ("results", f"results/{name.replace('/', '_')}.json", "results/broken.json", "results/deep.json"):
            answer = await panel.get(page)
            assert answer.status == 200, page
            assert is_harmless(answer), page

    visit(tmp_path, test)


def test_long_results_and_many_of_them_come_in_parts(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        write(tmp_path, "long", {"text": "字" * 500_000})
        for number in range(130):
            write(tmp_path, f"P-{number:03d}", {})
        page = await panel.get("results/long.json")
        assert "只显示前" in text_of(page)
        assert len(page.body) < 300_000
        first, second = await panel.get("results"), await panel.get("results?page=2")
        assert len(first.body) < 300_000
        assert text_of(first).count("删除") > 90
        assert text_of(second).count("P ") >= 30
        assert "P-007" in (await panel.get("results?q=p-007")).body.decode()
        assert "没有符合的结果" in text_of(await panel.get("results?q=nirgends"))

    visit(tmp_path, test)
