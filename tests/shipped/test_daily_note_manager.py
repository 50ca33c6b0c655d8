"""DailyNoteManager, ThoughtClusterManager and DailyNoteEditor in a running server (memory.md 1.7; vcp-core 5.10)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from app.extend import Remembered
from app.protocol.tool_blocks import parse_request
from tests.server import Running, call_text, run, running

PLUGINS = Path(__file__).resolve().parents[2] / "Plugin"
SHIPPED = ("DailyNoteManager", "ThoughtClusterManager", "DailyNoteEditor", "DailyNote")


class Near:
    """Stands where the index is, which this plugin does not make."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    async def neighbours(self, paths: Sequence[str], **more: Any) -> Sequence[Remembered]:
        self.asked = {"paths": list(paths), **more}
        found = [("小克", "小克/b.txt", 0.9), ("密", "密/c.txt", 0.8)]
        return [
            Remembered(
                notebook, path, "相近的内容" * 100, score, score, "vector", date(2026, 1, 5), "小克", (), ("春天",)
            )
            for notebook, path, score in found
        ]


def with_plugins(home: Path, test: Callable[[Running], Awaitable[None]]) -> None:
    async def main() -> None:
        for name in SHIPPED:
            shutil.copytree(PLUGINS / name, home / "Plugin" / name, ignore=shutil.ignore_patterns("__pycache__"))
        async with running(home, "http://127.0.0.1:9") as server:
            await test(server)

    run(main())


async def ask(server: Running, tool: str, **arguments: str) -> Any:
    said = call_text(tool, **arguments).encode()
    answer = await server.client.post("/v1/human/tool", content=said, headers={"Content-Type": "text/plain"})
    return answer.status_code, answer.json()


def test_list_organize_associate_and_the_older_form(tmp_path: Path) -> None:
    root = tmp_path / "dailynote"
    for name in ("小克/2026-01-05-20_10_00.txt", "小克/2026-01-05-21_30_00.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("[2026-01-05] - 小克\n散步\nTag: a", "utf-8")
    (tmp_path / "notebook_permissions.json").write_text('{"密": "private"}', "utf-8")

    async def test(server: Running) -> None:
        manifest = json.loads((PLUGINS / "DailyNoteManager" / "plugin-manifest.json").read_text("utf-8"))
        shown, organize, associate = (
            dict(parse_request(one["example"]).arguments) for one in manifest["capabilities"]["invocationCommands"]
        )
        status, answer = await ask(server, "DailyNoteManager", **shown)
        assert status == 200, answer
        assert "--- [小克/2026-01-05-20_10_00.txt] ---" in json.dumps(answer, ensure_ascii=False)

        near = Near()
        _use(server, near)
        status, answer = await ask(server, "DailyNoteManager", **associate)
        assert status == 200, answer
        text = json.dumps(answer, ensure_ascii=False)
        assert "小克/b.txt" in text and "密/c.txt" not in text
        assert near.asked == {
            "paths": ["小克/2026-01-05-20_10_00.txt"],
            "notebooks": ["小克", "公共"],
            "k": 5,
            "least": 0,
            "tag_boost": 0.15,
        }

        status, answer = await ask(server, "DailyNoteManager", **organize)
        assert status == 200, answer
        assert sorted(path.name for path in (root / "已整理").iterdir()) == [
            "2026-01-05-20_10_00.txt",
            "2026-01-05-21_30_00.txt",
        ]
        (merged,) = (root / "小克").iterdir()
        assert merged.read_text("utf-8").endswith("Tag: 散步, 春天, 计划")

        status, answer = await ask(server, "DailyNoteManager", **organize)
        assert status != 200 or "error" in json.dumps(answer)
        status, answer = await ask(server, "DailyNoteManager", command="2026.01.05.txt\n2026.01.05-小克\n内容")
        assert status == 200, answer
        assert (root / "已整理日记" / "2026.01.05.txt").read_text("utf-8") == "2026.01.05-小克\n内容"
        for wrong in ("", "delete", "text\nwithout a file name"):
            status, answer = await ask(server, "DailyNoteManager", command=wrong)
            assert status == 500, answer

    with_plugins(tmp_path, test)


def _use(server: Running, near: Near) -> None:
    """Let the plugin ask ``near``."""
    server.services.memory.for_plugins.neighbours = near.neighbours  # type: ignore[method-assign]


def test_clusters_by_numbered_steps_and_the_editor_by_its_older_name(tmp_path: Path) -> None:
    async def test(server: Running) -> None:
        text = "先假设结论不成立，再寻找矛盾之处。"
        steps = {"command1": "CreateClusterFile", "clusterName1": "推理簇", "content1": text}
        steps |= {"command2": "EditClusterFile", "targetText2": text, "replacementText2": text + "然后改正它。"}
        status, answer = await ask(server, "ThoughtClusterManager", **steps)
        assert status == 200, answer
        (file,) = (tmp_path / "dailynote" / "推理簇").iterdir()
        assert file.read_text("utf-8") == text + "然后改正它。"
        status, answer = await ask(server, "ThoughtClusterManager", **(steps | {"clusterName1": "不对"}))
        assert status == 500 and "clusterName1" in json.dumps(answer)

        status, answer = await ask(server, "DailyNoteEditor", target=text, replace="改过", maid="推理")
        assert status == 200, answer
        assert file.read_text("utf-8") == "改过然后改正它。然后改正它。"

    with_plugins(tmp_path, test)


@pytest.mark.parametrize("name", ["ThoughtClusterManager", "DailyNoteEditor"])
def test_it_says_so_when_another_interpreter_runs_it(name: str) -> None:
    source = (PLUGINS / name / "main.py").read_text("utf-8")
    manifest = json.loads((PLUGINS / name / "plugin-manifest.json").read_text("utf-8"))
    assert manifest["entryPoint"]["interpreter"] == "server"
    assert "except ImportError" in source
