"""``vcp memory bench`` measures the user's own notebooks: leave-one-out questions, recall, times (11.30)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.home.lock import own_home
from tests.cli.commands import Ended, command, refused
from tests.server import running
from tests.waiting import until

THINGS = ("金桂", "砚台", "风筝", "陶笛", "口琴", "团扇", "竹椅", "铜镜")


def write_notes(home: Path) -> None:
    folder = home / "dailynote/小克"
    folder.mkdir(parents=True)
    for number, thing in enumerate(THINGS):
        text = f"在{thing}旁边坐了一个下午的时光。那个{thing}是爷爷在第{number}年送的礼物"
        tags = f"Tag: 物{number // 2}, 常见" + (", 独" if number == 0 else "")
        (folder / f"{number}.txt").write_text(f"[2025-11-0{number + 1}] - 小克\n{text}\n{tags}", encoding="utf-8")


def test_the_own_notebooks_are_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_notes(tmp_path)

    async def main() -> tuple[Ended, Ended, list[int]]:
        async with running(tmp_path, "http://127.0.0.1:9", config=["MemoryEmbedder=hashing"]) as server:
            memory = server.services.memory
            await until(lambda: memory.index.index and len(memory.index.index.notebooks()) == 1)
            await until(lambda: memory.vectors.status()["ready"] and memory.vectors.status()["pending"] == 0)
            codes = [
                (await server.client.post("/v1/memory/bench", json=body)).status_code
                for body in ({"questions": 0}, {"questions": True}, {"seed": "1"}, [])
            ]
            with own_home(tmp_path, "serve") as ownership:
                ownership.tell(server.url)
                words = ("memory", "bench", "--home", tmp_path, "--questions", "20")
                shown = await asyncio.to_thread(command, capsys, *words)
                return shown, await asyncio.to_thread(command, capsys, *words, "--json"), codes

    shown, as_json, codes = asyncio.run(asyncio.wait_for(main(), 30))
    assert codes == [400, 400, 400, 400]
    answer = json.loads(as_json.out)
    rows = {(row["questions"], row["way"]): row for row in answer["rows"]}
    assert (answer["notes"], answer["wordsOnly"]) == (8, False)
    assert rows.keys() == {(kind, way) for kind in ("sentence", "left_out") for way in ("joined", "meaning", "words")}
    assert all(row["count"] == 8 for row in rows.values())
    assert rows["sentence", "joined"]["recall@5"] == 1.0  # a sentence finds the note it is from
    assert rows["left_out", "joined"]["recall@10"] > 0
    assert all(0 <= row["mrr"] <= 1 and 0 < row["p50"] <= row["p95"] for row in rows.values())
    assert shown.code == 0
    assert "recall@10" in shown.out and "left_out" in shown.out


def test_without_a_server_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "vcp serve" in refused(capsys, "memory", "bench", "--home", tmp_path)
