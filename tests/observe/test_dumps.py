"""What ``DebugMode`` writes: names, limits, rights (spec 1.13)."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.observe import dumps as module
from app.observe.dumps import DebugDumps
from tests.server import ECHO, call_text, run, running, write_plugin

PICTURE = "data:image/png;base64," + "QUJD" * 1000


class Time:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def write(folder: Path, *values: Any, most: int = 10, prefix: str = "LogInput") -> None:
    async def main() -> None:
        dumps = DebugDumps(folder, lambda: most, Time())
        for value in values:
            dumps.dump(prefix, value)
            await dumps.settle()

    asyncio.run(main())


def test_a_dump_is_readable_json_for_its_owner_with_digests_for_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "DebugLog"
    write(folder, {"messages": [{"content": [{"image_url": {"url": PICTURE}}, "你好"]}]})
    (path,) = folder.iterdir()
    assert path.name == "LogInput-20260105_000001_000.txt"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    text = path.read_text(encoding="utf-8")
    assert "QUJDQUJD" not in text and "sha256" in text and "你好" in text
    json.loads(text)


def test_their_number_is_limited_and_the_log_is_left_alone(tmp_path: Path) -> None:
    others = ["ServerLog-20250101_000000_000.txt", "LogInput-mine.txt"]
    for name in others:
        (tmp_path / name).touch()
    write(tmp_path, *range(7), most=3)
    kept = sorted(path.name for path in tmp_path.iterdir() if path.name not in others)
    assert [(tmp_path / name).read_text(encoding="utf-8") for name in kept] == ["4", "5", "6"]
    assert all((tmp_path / name).exists() for name in others)


def test_the_newest_are_kept_although_the_zone_gave_older_ones_later_names(tmp_path: Path) -> None:
    for second in (1, 2):
        old = tmp_path / f"LogInput-20260106_00000{second}_000.txt"
        old.touch()
        os.utime(old, (second, second))
    write(tmp_path, {}, most=2)
    names = ["LogInput-20260105_000001_000.txt", "LogInput-20260106_000002_000.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_huge_dump_is_cut_and_one_that_is_no_json_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    write(tmp_path, "x" * 1000, {1, 2}, "half \udcff")
    first, second = sorted(tmp_path.iterdir())
    assert first.read_bytes() == b'"' + b"x" * 99 + b"\n... (1002 bytes)"
    assert second.read_bytes() == b'"half \\udcff"'


def test_a_full_disk_is_told_once_and_leaves_no_half_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "write", full)
    with caplog.at_level(logging.WARNING):
        write(tmp_path, 1, 2)
    assert list(tmp_path.iterdir()) == []
    assert len(caplog.records) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_leaves_a_dump_of_every_step(tmp_path: Path, stream: bool) -> None:
    write_plugin(tmp_path, "Echo", ECHO)
    mode = "Stream" if stream else "NonStream"
    asked = call_text("Echo", text="hi") + call_text("Echo", text="later", archery="true")

    async def main() -> None:
        script = [say(asked), say("done")]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=["DebugMode=true"]) as server,
        ):
            await server.chat({"role": "system", "content": "{{VarX}}"}, stream=stream)
            await server.services.background.stop(10)  # the call without reply has ended
            await server.services.dumps.settle()
        found = {path.name.rpartition("-")[0]: path.read_text(encoding="utf-8") for path in dumped(tmp_path)}
        assert set(found) == {
            "LogInput",
            "LogAfterVariableProcessing",
            "LogAfterPreprocessors",
            "LogOutputAfterProcessing",
            f"LogToolResultForAI-{mode}",
            f"VCP-{mode}-Result-Echo",
            f"VCP-{mode}-Archery-Result-Echo",
        }
        assert "{{VarX}}" in found["LogInput"]
        assert "hi" in found[f"VCP-{mode}-Result-Echo"]
        assert not any("upstream-key" in text or "test-key" in text for text in found.values())

    run(main())


@pytest.mark.parametrize("config", [[], ["DebugMode=true", "DebugDumpFiles=0"]])
def test_nothing_is_dumped_unless_it_is_wanted(tmp_path: Path, config: list[str]) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("done")]) as up, running(tmp_path, up.base_url, config=config) as server:
            await server.chat("hello")
        assert not (tmp_path / "DebugLog").exists()

    run(main())


def test_names_of_tools_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    name = "../../x\x00y" + "z" * 300

    async def main() -> None:
        script = [say(call_text(name)), say("done")]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=["DebugMode=true"]) as server,
        ):
            await server.chat("x")
            await server.services.dumps.settle()
        (path,) = (path for path in dumped(tmp_path) if path.name.startswith("VCP-"))
        assert path.name.startswith("VCP-NonStream-Result-.._.._x")
        assert len(path.name) < 120

    run(main())


def dumped(home: Path) -> list[Path]:
    return sorted((home / "DebugLog").iterdir())
