"""What outlives a restart, and what a reload of the plugins does to static ones (spec 5.11; P78, B28)."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
from pathlib import Path

import pytest

import app.plugins.static_values as static_values_module
from app.plugins.static_values import KeptValue, StaticValues
from app.plugins.statics import StaticPlugins
from tests.plugins.static_bench import NOW, StaticBench, shown, state
from tests.plugins.watching import appears, lives
from tests.waiting import until

GATED = "sh -c 'echo > begun; while [ ! -e gate ]; do sleep 0.01; done; cat value'"


@pytest.fixture
def bench(tmp_path: Path) -> StaticBench:
    return StaticBench(tmp_path)


def test_p78_the_first_chat_after_a_restart_has_the_last_good_value(bench: StaticBench) -> None:
    bench.prints("News", "old news")

    async def first(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        assert not state(statics, "News").stale

    bench.run(first)
    bench.plugin("News", GATED)
    bench.says("News", "new news")

    async def second(statics: StaticPlugins) -> None:
        assert await shown(statics, "{{News}}") == "old news"
        assert state(statics, "News").stale
        (bench.home / "Plugin" / "News" / "gate").touch()
        await statics.refresh("News")
        assert await shown(statics, "{{News}}") == "new news"
        assert not state(statics, "News").stale

    bench.run(second)


def test_a_value_of_before_survives_a_first_run_that_fails(bench: StaticBench) -> None:
    bench.values.save("News", KeptValue("old", NOW))
    bench.plugin("News", "sh -c 'exit 1'")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        assert await shown(statics, "{{News}}") == "old"
        assert state(statics, "News").stale

    bench.run(work)


def test_kept_files_are_for_their_owner_only_and_written_when_the_text_changes(bench: StaticBench) -> None:
    bench.prints("News", "text")
    folder = bench.home / ".vcp" / "static_values"

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        (file,) = folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        before = file.stat().st_ino
        await statics.refresh("News")
        assert file.stat().st_ino == before
        bench.says("News", "other")
        await statics.refresh("News")
        (file,) = folder.iterdir()
        assert file.stat().st_ino != before
        assert json.loads(file.read_text(encoding="utf-8"))["text"] == "other"

    bench.run(work)


def test_a_full_disk_costs_the_survival_of_a_value_and_nothing_else(
    bench: StaticBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.prints("News", "text")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        assert await shown(statics, "{{News}}") == "text"

    monkeypatch.setattr(os, "fsync", full)
    bench.run(work)
    monkeypatch.undo()
    assert "the value of static plugin News will not outlive the server" in caplog.text
    assert list((bench.home / ".vcp" / "static_values").iterdir()) == []


NAMES = ["News", "../../etc/passwd", "a/b", "nul\0", "n" * 5000, "天气", "\ud800", "."]


def test_names_of_every_kind_have_a_file_of_their_own(tmp_path: Path) -> None:
    values = StaticValues(tmp_path / "values")
    for number, name in enumerate(NAMES):
        values.save(name, KeptValue(f"text {number}", float(number)))
    assert values.load(NAMES) == {name: KeptValue(f"text {n}", float(n)) for n, name in enumerate(NAMES) if n != 6}
    assert sorted(tmp_path.iterdir()) == [tmp_path / "values"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"plugin":"News","printed_at":1,"te',
        b"[]",
        b"null",
        b'{"plugin":"Other","printed_at":1,"text":"x"}',
        b'{"plugin":"News","printed_at":"1","text":"x"}',
        b'{"plugin":"News","printed_at":true,"text":"x"}',
        b'{"plugin":"News","printed_at":1,"text":["x"]}',
        b'{"plugin":"News","printed_at":NaN,"text":"x"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"x" * 2000,
    ],
)
def test_a_kept_file_that_cannot_be_read_is_passed_over(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(static_values_module, "FILE_BYTES_LIMIT", 200_000 if len(content) != 2000 else 1000)
    values = StaticValues(tmp_path)
    values.save("News", KeptValue("x", 1.0))
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    assert values.load(["News"]) == {}
    assert "the kept value of plugin News cannot be read" in caplog.text


def test_files_of_plugins_that_are_gone_and_halves_of_killed_writers_are_removed(tmp_path: Path) -> None:
    values = StaticValues(tmp_path)
    values.save("News", KeptValue("x", 1.0))
    values.save("Gone", KeptValue("y", 1.0))
    (tmp_path / ".half.json.0123.tmp").write_text("{", encoding="utf-8")
    (tmp_path / "note.txt").write_text("a person's", encoding="utf-8")
    assert set(values.load(["News"])) == {"News"}
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".txt"]
    values.forget("News")
    values.forget("News")
    assert values.load(["News"]) == {}


def test_a_folder_that_is_none_costs_the_kept_values_only(bench: StaticBench, caplog: pytest.LogCaptureFixture) -> None:
    (bench.home / ".vcp").mkdir()
    (bench.home / ".vcp" / "static_values").write_text("a file", encoding="utf-8")
    bench.prints("News", "text")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        assert await shown(statics, "{{News}}") == "text"

    bench.run(work)
    assert "kept values cannot be listed" in caplog.text


def test_a_kept_value_longer_than_the_limit_of_now_is_cut(bench: StaticBench) -> None:
    bench.values.save("News", KeptValue("x" * 500, NOW))
    bench.plugin("News", GATED)
    bench.max_chars = 10

    async def work(statics: StaticPlugins) -> None:
        assert (await shown(statics, "{{News}}")).startswith("x" * 10 + "\n[News")

    bench.run(work)


def test_b28_a_reload_runs_what_is_new_or_changed_and_leaves_the_rest_alone(bench: StaticBench) -> None:
    bench.prints("Same", "same", refreshIntervalCron="0 * * * *")
    bench.prints("Changed", "before")
    bench.prints("Gone", "gone", refreshIntervalCron="0 * * * *")

    async def work(statics: StaticPlugins) -> None:
        for name in ("Same", "Changed", "Gone"):
            await bench.runs(name, 1)
        kept = bench.values.load(["Gone", "Same", "Changed"])
        assert len(kept) == 3
        await until(lambda: bench.hands.sleepers == 2)
        same = state(statics, "Same")
        bench.plugin("Changed", GATED)
        bench.says("Changed", "after")
        bench.prints("New", "new")
        (bench.home / "Plugin" / "Gone" / "plugin-manifest.json").rename(
            bench.home / "Plugin" / "Gone" / "plugin-manifest.json.block"
        )
        await statics.replace(bench.found())
        await bench.runs("New", 1)
        await appears(bench.home / "Plugin" / "Changed" / "begun")
        assert await shown(statics, "{{Same}} {{Changed}} {{Gone}} {{New}}") == "same before {{Gone}} new"
        assert state(statics, "Changed").stale
        (bench.home / "Plugin" / "Changed" / "gate").touch()
        await bench.runs("Changed", 2)
        assert await shown(statics, "{{Changed}}") == "after"
        assert state(statics, "Same") == same
        await until(lambda: "Gone" not in bench.values.load(["Gone", "Same", "Changed", "New"]))
        await until(lambda: bench.hands.sleepers == 1)
        await bench.hands.move(3600)
        await bench.runs("Same", 2)
        assert len(bench.refreshed("Gone")) == 1

    bench.run(work)


def test_a_changed_setting_of_the_server_that_a_plugin_reads_makes_it_run_again(bench: StaticBench) -> None:
    bench.script("City", "import os\nprint(os.environ['City'])", configSchema={"City": "string"})
    bench.prints("Other", "other")
    bench.environ["City"] = "Berlin"

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("City", 1)
        await bench.runs("Other", 1)
        bench.environ |= {"City": "上海", "Unrelated": "1"}
        await statics.replace(bench.found())
        await bench.runs("City", 2)
        assert await shown(statics, "{{City}} {{Other}}") == "上海 other"
        await bench.runs("Other", 1)

    bench.run(work)


def test_a_changed_plugin_waits_for_the_end_of_its_old_run(bench: StaticBench) -> None:
    folder = bench.script(
        "Slow",
        "import os, time\nopen('pid.tmp', 'w').write(str(os.getpid())); os.rename('pid.tmp', 'pid')\ntime.sleep(600)",
    )

    async def work(statics: StaticPlugins) -> None:
        await appears(folder / "pid")
        pid = int((folder / "pid").read_text(encoding="utf-8"))
        bench.plugin("Slow", f"sh -c 'kill -0 {pid} && echo both || echo alone'")
        await statics.replace(bench.found())
        await bench.runs("Slow", 1)
        assert await shown(statics, "{{Slow}}") == "alone"
        assert not lives(pid)

    bench.run(work)


def test_a_removed_plugin_is_ended_in_the_middle_of_its_run_and_who_waits_for_it_is_told(bench: StaticBench) -> None:
    folder = bench.plugin("Slow", GATED)

    async def work(statics: StaticPlugins) -> None:

        await appears(folder / "begun")
        waiting = asyncio.create_task(statics.refresh("Slow"))
        await asyncio.sleep(0)
        (folder / "plugin-manifest.json").unlink()
        await statics.replace(bench.found())
        assert (await waiting).last_error == ""
        assert statics.states() == ()
        assert await shown(statics, "{{Slow}}") == "{{Slow}}"

    bench.run(work)
    assert bench.events == []


def test_a_new_key_of_a_changed_plugin_has_the_old_text_until_the_new_one_is_there(bench: StaticBench) -> None:
    bench.prints("News", "text")

    async def work(statics: StaticPlugins) -> None:
        await bench.runs("News", 1)
        bench.plugin("News", GATED, keys=("{{Renamed}}",))
        await statics.replace(bench.found())
        assert await shown(statics, "{{News}} {{Renamed}}") == "{{News}} text"

    bench.run(work)


def test_replacing_before_the_start_runs_nothing(bench: StaticBench) -> None:

    async def main() -> None:
        statics = bench.host()
        bench.prints("News", "text")
        await statics.replace(bench.found())
        assert [one.plugin for one in statics.states()] == ["News"]
        assert statics.health() == ""
        await statics.stop()

    asyncio.run(main())
    assert bench.events == []
