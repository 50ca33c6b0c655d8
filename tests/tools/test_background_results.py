"""Results of background plugins on disk: whole, in order, kept as long as wanted (spec 1.10; B3, B34, B43)."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from app.errors import BadRequestError
from app.tools import background_results
from app.tools.background_results import BackgroundResults, Missing, Retention

DAY = 86_400


class Store:
    """A store over two folders, with a clock and a retention of the test's."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "VCPAsyncResults"
        self.own = home / ".vcp" / "background_results"
        self.now = time.time()
        self.retention = Retention()
        self.results = BackgroundResults(self.folder, self.own, lambda: self.retention, lambda: self.now)

    def store(self, plugin: str, task: str, body: Any) -> None:
        asyncio.run(self.results.store(plugin, task, body))

    def age(self, name: str, days: float) -> None:
        os.utime(self.folder / name, (self.now - days * DAY,) * 2)

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_result_is_json_with_two_spaces_and_its_own_characters(store: Store) -> None:
    store.store("Wan2.1VideoGen", "abc-1", {"状态": ["好", 1.5, None]})
    content = (store.folder / "Wan2.1VideoGen-abc-1.json").read_text(encoding="utf-8")
    assert content == '{\n  "状态": [\n    "好",\n    1.5,\n    null\n  ]\n}'
    assert store.results.read("Wan2.1VideoGen", "abc-1") == {"状态": ["好", 1.5, None]}
    assert store.names() == {"Wan2.1VideoGen-abc-1.json"}


def test_a_later_result_replaces_the_earlier_one(store: Store) -> None:
    for body in ({"progress": 1}, {"status": "Succeed"}):
        store.store("P", "1", body)
        assert store.results.read("P", "1") == body


def test_results_that_come_at_the_same_time_are_written_in_the_order_they_came(store: Store) -> None:
    async def main() -> None:
        large = ["progress"] * 100_000  # takes longer to write down than what comes after it
        await asyncio.gather(*(store.results.store("P", "1", body) for body in (large, "half", large, "final")))

    asyncio.run(main())
    assert store.results.read("P", "1") == "final"


def test_a_full_disk_leaves_the_old_result_whole_and_no_litter(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.store("P", "1", "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        store.store("P", "1", "new")
    with pytest.raises(OSError, match="space"):
        store.store("P", "2", "new")
    assert store.names() == {"P-1.json"}
    assert store.results.read("P", "1") == "old"
    assert store.results.read("P", "2") is Missing.PENDING


@pytest.mark.parametrize("task", ["../x", "a/b", "a\\b", "a\0", ".", "", "x" * 300])
def test_a_task_that_is_no_file_name_is_refused(store: Store, task: str) -> None:  # B3
    with pytest.raises(BadRequestError):
        store.store("P", task, {})
    assert not store.folder.exists()
    assert store.results.read("P", task) is Missing.PENDING


def test_a_link_that_leads_out_of_the_folder_is_not_written_through(store: Store, tmp_path: Path) -> None:  # B3
    target = tmp_path / "config.env"
    target.write_text("Key=x")
    store.folder.mkdir()
    (store.folder / "P-1.json").symlink_to(target)
    with pytest.raises(PermissionError):
        store.store("P", "1", {"Key": "mine"})
    assert target.read_text() == "Key=x"


def test_a_folder_that_is_a_link_itself_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "VCPAsyncResults").symlink_to(tmp_path / "disk")
    store = Store(tmp_path)
    store.store("P", "1", 1)
    assert store.results.read("P", "1") == 1
    assert (tmp_path / "disk" / "P-1.json").exists()


def deep(levels: int) -> Any:
    body: Any = 1
    for _ in range(levels):
        body = [body]
    return body


def test_values_that_json_readers_would_choke_on_are_refused(store: Store) -> None:
    store.store("P", "1", deep(background_results.DEPTH_LIMIT))
    for body in (deep(background_results.DEPTH_LIMIT + 1), deep(900), float("inf"), [float("nan")]):
        with pytest.raises(BadRequestError):
            store.store("P", "2", body)
    assert store.names() == {"P-1.json"}


def test_halves_of_characters_are_written_as_escapes(store: Store) -> None:
    store.store("P", "1", {"a": "\ud83d"})
    assert store.results.read("P", "1") == {"a": "\ud83d"}


def test_what_indenting_would_blow_up_is_written_without(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_results, "MAX_FILE_BYTES", 3000)
    body = deep(50)
    body.extend([1] * 300)
    store.store("P", "1", body)
    assert b"\n" not in (store.folder / "P-1.json").read_bytes()
    assert store.results.read("P", "1") == body
    with pytest.raises(BadRequestError):
        store.store("P", "2", ["x" * 3000])


def test_old_results_are_deleted_and_new_ones_kept(store: Store) -> None:  # B43
    for task in ("old", "new"):
        store.store("P", task, {})
    store.age("P-old.json", 91)
    store.age("P-new.json", 89)
    assert store.results.sweep() == 0
    store.retention = Retention(days=90)
    assert store.results.sweep() == 1
    assert store.names() == {"P-new.json"}
    assert {path.name for path in store.own.iterdir()} == {"P-new.json"}


def test_of_too_many_results_the_newest_stay(store: Store) -> None:  # B43
    for number in range(5):
        store.store("P", str(number), {})
        store.age(f"P-{number}.json", number)
    store.retention = Retention(count=2)
    assert store.results.sweep() == 3
    assert store.names() == {"P-0.json", "P-1.json"}


def test_what_this_server_did_not_write_is_never_deleted(store: Store, tmp_path: Path) -> None:
    """Results of an older installation, a person's notes, links, folders, half-written files of others."""
    store.folder.mkdir()
    others = ["Suno-old.json", "notes.txt", ".P-1.json.tmp", "P-theirs.json"]
    for name in others:
        (store.folder / name).write_text("{}")
        store.age(name, 1000)
    (store.folder / "folder.json").mkdir()
    store.store("P", "theirs", {"callback": "into a file that was there"})
    store.store("P", "mine", {})
    store.store("P", "turned", {})
    (store.folder / "P-turned.json").unlink()
    (store.folder / "P-turned.json").symlink_to(tmp_path / "elsewhere")
    for name in ("P-theirs.json", "P-mine.json"):
        store.age(name, 1000)
    store.retention = Retention(days=1, count=1)
    store.results.sweep()
    assert store.names() == {*others, "folder.json", "P-turned.json"}


def test_a_result_that_a_person_deleted_is_forgotten(store: Store) -> None:
    store.store("P", "1", {})
    (store.folder / "P-1.json").unlink()
    assert store.results.sweep() == 0
    assert list(store.own.iterdir()) == []


def test_results_are_swept_by_the_way_once_an_hour(store: Store) -> None:
    store.retention = Retention(days=1)
    store.store("P", "1", {})
    store.age("P-1.json", 2)
    store.store("P", "2", {})
    assert "P-1.json" in store.names()
    store.now += background_results.SWEEP_SECONDS
    store.store("P", "3", {})
    assert store.names() == {"P-2.json", "P-3.json"}


def test_whether_a_task_has_told_anything_since_a_moment(store: Store) -> None:
    assert not store.results.stored_since("P", "1", 0)
    store.store("P", "1", {})
    store.age("P-1.json", 1)
    assert store.results.stored_since("P", "1", store.now - 2 * DAY)
    assert not store.results.stored_since("P", "1", store.now)
