"""``vcp memory explain`` asks the server that runs and shows why a declaration becomes what it becomes (11.29)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.home.lock import own_home
from tests.cli.commands import Ended, command, refused
from tests.server import running
from tests.waiting import until


def explained(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> Ended:
    async def main() -> Ended:
        async with running(home, "http://127.0.0.1:9") as server:
            await until(lambda: server.services.memory.index.index and server.services.memory.index.index.notebooks())
            with own_home(home, "serve") as ownership:
                ownership.tell(server.url)
                return await asyncio.to_thread(command, capsys, "memory", "explain", "--home", home, *words)

    return asyncio.run(asyncio.wait_for(main(), 30))


def test_a_declaration_is_explained_for_people_and_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "dailynote/小克"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("养了一只猫\x1b[2J叫咪咪", encoding="utf-8")
    told = explained(capsys, tmp_path, "[[小克日记本::Foo]] 《《小克日记本》》", "昨天咪咪")
    assert (told.code, told.err) == (0, "")
    assert "[[小克日记本::Foo]]  →  filled" in told.out
    assert "unknown modifier: Foo" in told.out
    assert "小克/a.txt" in told.out
    assert "gate 小克" in told.out
    assert "\x1b" not in told.out
    as_json = explained(capsys, tmp_path, "[[小克日记本]]", "咪咪", "--json")
    assert json.loads(as_json.out)["declarations"][0]["outcome"] == "filled"
    assert "there is no declaration" in explained(capsys, tmp_path, "nothing").out


def test_without_a_server_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "vcp serve" in refused(capsys, "memory", "explain", "--home", tmp_path, "[[小克日记本]]")
