"""Noticing changes: with and without the system's notifications, settling, storms, limits (spec 5.11, P68, P93)."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.reload.watcher import Notifications, Pace, Watcher, system_notifications
from tests.reload.files import QUICK, add_plugin, manifest_of, save
from tests.server import run
from tests.waiting import until

NEVER = 3600.0
NOTIFIED = replace(QUICK, look_every=NEVER)
"""Whatever is seen at this pace was told by the system."""


async def refused(folders: Iterable[Path]) -> AsyncGenerator[Iterable[Path], None]:
    """A system whose limit of watches is used up."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    yield ()


async def silent(folders: Iterable[Path]) -> AsyncGenerator[Iterable[Path], None]:
    """A network drive: the system takes the order and never tells anything."""
    await asyncio.Event().wait()
    yield ()


class Seen:
    """What a watcher told: names of files by call; and how often it looked."""

    def __init__(self, home: Path, *code: Path) -> None:
        self._home = home
        self._code = code
        self.looks = 0
        self.calls: list[set[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, files: frozenset[Path]) -> None:
        self.calls.append({str(path.relative_to(self._home)) for path in files})
        await self.gate.wait()

    def code_folders(self) -> tuple[Path, ...]:
        """Asked at each look."""
        self.looks += 1
        return self._code

    async def looked(self, times: int) -> None:
        """Wait until the watcher has looked so many times more."""
        wanted = self.looks + times
        await until(lambda: self.looks >= wanted)

    @property
    def files(self) -> set[str]:
        return set().union(*self.calls)


@asynccontextmanager
async def watching(
    home: Path, pace: Pace, notifications: Notifications = system_notifications, *code: Path
) -> AsyncIterator[Seen]:
    """A watcher that has begun; it reads once for what happened before."""
    seen = Seen(home, *code)
    watcher = Watcher(home, seen, seen.code_folders, pace=pace, notifications=notifications)
    await watcher.start()
    try:
        await until(lambda: seen.calls == [set()])
        seen.calls.clear()
        yield seen
        assert watcher.health() == ""
    finally:
        await watcher.stop()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    save(home / "config.env", "A=1")
    add_plugin(home, "Echo")
    return home


WAYS = pytest.mark.parametrize(
    ("pace", "notifications"),
    [(NOTIFIED, system_notifications), (QUICK, silent), (replace(QUICK, look_every=NEVER), refused)],
    ids=["notified", "silent", "refused"],
)


@WAYS
def test_every_kind_of_change_is_noticed(home: Path, pace: Pace, notifications: Notifications) -> None:
    manifest = home / "Plugin" / "Echo" / "plugin-manifest.json"

    async def main() -> None:
        async with watching(home, pace, notifications) as seen:

            async def noticed(*names: str) -> None:
                await until(lambda: seen.files >= set(names))
                seen.calls.clear()

            save(home / "config.env", "A=2")
            await noticed("config.env")
            (home / "config.env").write_text("A=3\n", encoding="utf-8")
            await noticed("config.env")
            for name in ("agent_map.json", "ModelRedirect.json"):
                save(home / name, "{}")
                await noticed(name)
            (home / "agent_map.json").unlink()
            await noticed("agent_map.json")
            manifest.rename(manifest.with_name("plugin-manifest.json.block"))
            await noticed("Plugin/Echo/plugin-manifest.json", "Plugin/Echo/plugin-manifest.json.block")
            save(home / "Plugin" / "Echo" / "config.env", "A=1")
            await noticed("Plugin/Echo/config.env")
            add_plugin(home, "New")
            await noticed("Plugin/New/plugin-manifest.json")
            add_plugin(home, "New", description="edited")
            await noticed("Plugin/New/plugin-manifest.json")
            shutil.rmtree(home / "Plugin" / "New")
            await noticed("Plugin/New/plugin-manifest.json")

    run(main())


@WAYS
def test_a_link_to_other_settings_or_plugins_is_noticed(home: Path, pace: Pace, notifications: Notifications) -> None:
    """P93."""
    other = home.parent / "other"
    save(other / "config.env", "A=9")
    add_plugin(other, "Other")

    async def main() -> None:
        async with watching(home, pace, notifications) as seen:
            for name in ("config.env", "Plugin"):
                (home / name).rename(home.parent / f"old {name}")
                (home / name).symlink_to(other / name)
            await until(lambda: seen.files >= {"config.env", "Plugin/Other/plugin-manifest.json"})
            seen.calls.clear()
            save(other / "config.env", "A=10")
            await until(lambda: seen.files >= {"config.env"})
            seen.calls.clear()
            add_plugin(other, "Another")
            await until(lambda: seen.files >= {"Plugin/Another/plugin-manifest.json"})

    run(main())


@WAYS
def test_a_plugin_folder_that_is_made_later_is_watched_too(
    tmp_path: Path, pace: Pace, notifications: Notifications
) -> None:
    async def main() -> None:
        async with watching(tmp_path, pace, notifications) as seen:
            (tmp_path / "Plugin").mkdir()
            add_plugin(tmp_path, "Echo")
            await until(lambda: seen.files >= {"Plugin/Echo/plugin-manifest.json"})
            seen.calls.clear()
            save(tmp_path / "Plugin" / "Echo" / "config.env", "A=1")
            await until(lambda: seen.files >= {"Plugin/Echo/config.env"})

    run(main())


def test_code_in_deep_folders_of_an_in_process_plugin_is_noticed_by_notification(home: Path) -> None:
    folder = home / "Plugin" / "Echo"
    save(folder / "parts" / "deep" / "one.py", "x = 1")

    async def main() -> None:
        async with watching(home, NOTIFIED, system_notifications, folder) as seen:
            save(folder / "parts" / "deep" / "one.py", "x = 2")
            await until(lambda: seen.files >= {"Plugin/Echo/parts/deep/one.py"})
            seen.calls.clear()
            save(folder / "new" / "two.py", "x = 2")
            await until(lambda: seen.files >= {"Plugin/Echo/new/two.py"})

    run(main())


def test_a_plugin_that_writes_into_its_own_folder_causes_no_reload(home: Path) -> None:
    async def main() -> None:
        async with watching(home, QUICK) as seen:
            for number in range(200):
                save(home / "Plugin" / "Echo" / "cache.json", str(number))
                save(home / "Plugin" / "Echo" / "generated_lists" / f"{number}.txt", "x")
                if number % 50 == 0:
                    await seen.looked(1)
            save(home / "config.env", "A=2")
            await until(lambda: len(seen.calls) > 0)
            assert seen.files == {"config.env"}

    run(main())


def test_a_file_that_is_saved_in_pieces_is_told_when_it_is_whole(home: Path) -> None:
    """An editor that truncates first: the file has shrunk, so it is given more time."""
    path = home / "config.env"
    found: list[str] = []

    async def main() -> None:
        patient = replace(QUICK, settle_shrunk=NEVER, longest=NEVER)
        async with watching(home, patient) as seen:
            with path.open("w", encoding="utf-8") as file:
                file.flush()
                await seen.looked(5)  # an editor's pause, several times longer than what other changes are given
                assert seen.calls == []
                file.write("A=1\nB=2\n")
            await until(lambda: bool(seen.calls))
            found.append(path.read_text(encoding="utf-8"))
            assert seen.calls == [{"config.env"}]

    run(main())
    assert found == ["A=1\nB=2\n"]


def test_a_file_that_stays_away_is_told_after_its_time(home: Path) -> None:
    async def main() -> None:
        async with watching(home, QUICK) as seen:
            (home / "config.env").unlink()
            await until(lambda: seen.calls == [{"config.env"}])

    run(main())


def test_changes_without_a_pause_are_told_all_the_same_and_not_often(home: Path) -> None:
    """A storm of a thousand files."""

    async def main() -> None:
        async with watching(home, replace(QUICK, settle=0.1, longest=0.4)) as seen:
            ended = asyncio.Event()

            async def storm() -> None:
                number = 0
                while not ended.is_set():
                    for _ in range(20):
                        add_plugin(home, f"P{number % 1000}", version=str(number))
                        number += 1
                    await asyncio.sleep(0.001)

            storming = asyncio.create_task(storm())
            await until(lambda: len(seen.calls) >= 2)
            ended.set()
            await storming
            last = manifest_of("P1", version="last")
            save(home / "Plugin" / "P1" / "plugin-manifest.json", last)
            await until(lambda: "Plugin/P1/plugin-manifest.json" in seen.calls[-1])

    run(main())


def test_changes_during_a_reload_cause_one_more(home: Path) -> None:
    async def main() -> None:
        async with watching(home, QUICK) as seen:
            seen.gate.clear()
            save(home / "config.env", "A=2")
            await until(lambda: len(seen.calls) == 1)
            for number in range(20):
                add_plugin(home, f"P{number}")
            seen.gate.set()
            await until(lambda: len(seen.calls) == 2)
            assert len(seen.calls[1]) == 20

    run(main())


def test_folders_that_are_gone_are_left_out_and_one_that_goes_in_that_moment_is_told_apart(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with aclosing(system_notifications([home, home / "gone"])) as notifications:
            first = asyncio.ensure_future(anext(notifications))
            await asyncio.sleep(0)
            save(home / "config.env", "A=2")
            assert home / "config.env" in await first
        with monkeypatch.context() as patched:
            patched.setattr(os, "access", lambda path, mode: True)
            with pytest.raises(FileNotFoundError):
                await anext(system_notifications([home, home / "gone"]))

    run(main())


def test_used_up_watches_are_told_once_and_looking_takes_their_place(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """ENOSPC of inotify."""

    async def main() -> None:
        async with watching(home, replace(QUICK, look_every=NEVER), refused) as seen:
            for number in range(3):
                add_plugin(home, f"P{number}")
                await until(lambda number=number: f"Plugin/P{number}/plugin-manifest.json" in seen.files)

    run(main())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "No space left on device" in record.getMessage()


def test_a_folder_that_vanishes_while_it_is_about_to_be_watched_is_no_fault(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with watching(home, QUICK, system_notifications) as seen:
            for number in range(10):
                add_plugin(home, f"P{number}")
                await seen.looked(1)
                shutil.rmtree(home / "Plugin" / f"P{number}")
            save(home / "config.env", "A=2")
            await until(lambda: "config.env" in seen.files)

    run(main())
    assert caplog.records == []


def test_a_system_that_refuses_to_watch_what_is_gone_is_asked_again(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[set[Path]] = []

    async def picky(folders: Iterable[Path]) -> AsyncGenerator[Iterable[Path], None]:
        asked.append(set(folders))
        if len(asked) == 1:
            raise FileNotFoundError(errno.ENOENT, "gone")
        async for paths in system_notifications(folders):
            yield paths

    async def main() -> None:
        async with watching(home, QUICK, picky):
            await until(lambda: len(asked) == 2)

    run(main())
    assert asked[0] == asked[1]
    assert caplog.records == []


def test_more_plugins_than_are_watched_are_told_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.reload.footprint.MAX_PLUGIN_FOLDERS", 1)
    add_plugin(home, "Second")

    async def main() -> None:
        async with watching(home, QUICK) as seen:
            save(home / "config.env", "A=2")
            await until(lambda: "config.env" in seen.files)

    run(main())
    assert len([record for record in caplog.records if "folders" in record.getMessage()]) == 1


def test_a_watcher_that_cannot_go_on_says_so(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def faulty(files: frozenset[Path]) -> None:
        raise ZeroDivisionError("faulty")

    async def main() -> None:
        watcher = Watcher(home, faulty, tuple, pace=QUICK)
        assert watcher.health() == ""
        await watcher.start()
        await until(lambda: watcher.health() != "")
        assert watcher.health() == "live reload has ended: faulty"
        await watcher.stop()

    run(main())
    assert "watching for changed files has failed" in caplog.text


def test_a_fault_that_passes_is_told_and_tried_again(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        seen = Seen(home)
        faults = [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")]

        async def changed(files: frozenset[Path]) -> None:
            if files and faults:
                raise faults.pop()
            await seen(files)

        watcher = Watcher(home, changed, tuple, pace=QUICK)
        await watcher.start()
        await until(lambda: seen.calls == [set()])
        save(home / "config.env", "A=2")
        await until(lambda: "config.env" in seen.files)
        assert watcher.health() == ""
        await watcher.stop()

    run(main())
    assert [record.getMessage().split(";")[0] for record in caplog.records] == ["changed files could not be read"] * 2


def test_a_stop_before_the_start_and_in_mid_wait_ends_at_once(home: Path) -> None:
    async def main() -> None:
        seen = Seen(home)
        watcher = Watcher(home, seen, seen.code_folders, pace=replace(QUICK, settle_shrunk=NEVER, longest=NEVER))
        await watcher.stop()
        await watcher.start()
        (home / "config.env").unlink()
        await seen.looked(5)
        await watcher.stop()
        assert watcher.health() == ""

    run(main())


def test_the_documents_tell_the_pace_of_a_server() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert Pace() == Pace(look_every=5, look_alone=1, rest=20, settle=0.3, settle_shrunk=2, longest=10)
    for words in ("two seconds", "a third of a second", "ten seconds", "within five seconds", "every second"):
        assert words in docs
