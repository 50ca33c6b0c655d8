"""Notes for those who look after them, where HTTP does not reach: limits of searches, writers that meet (11.1)."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.memory.diaries import notes as notes_module
from app.memory.diaries.notes import ConflictError, Notes, Place, fingerprint
from app.memory.diaries.trash import TRASH_FOLDER, Deleted


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    for number in range(10):
        path = tmp_path / "dailynote" / "book" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"word {number}", "utf-8")
    return Notes(tmp_path, tmp_path / "dailynote")


def test_a_search_ends_when_time_is_over_or_nobody_waits_any_more(notes: Notes) -> None:
    whole = notes.search("word", "", 100, threading.Event())
    assert (whole.total, whole.complete) == (10, True)
    ticks = itertools.count(0, 5)
    some = notes.search("word", "", 100, threading.Event(), lambda: float(next(ticks)))
    assert 0 < some.total < 10 and not some.complete
    stopped = threading.Event()
    stopped.set()
    assert notes.search("word", "", 100, stopped).total == 0


def test_a_search_gives_the_newest_up_to_its_limit(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "MAX_RESULTS", 3)
    found = notes.search("WORD", "book", 100, threading.Event())
    assert (len(found.notes), found.total, found.complete) == (3, 10, False)


def test_of_writers_that_saw_the_same_note_one_wins_and_the_others_are_told(notes: Notes) -> None:
    place = Place("book", "0.txt")
    seen = fingerprint(notes.read(place))

    def save(number: int) -> str:
        try:
            return notes.save(place, f"writer {number}", seen)
        except ConflictError as error:
            assert error.given == fingerprint(f"writer {number}".encode())
            return ""

    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(save, range(16)))
    (winner,) = filter(None, saved)
    assert winner == fingerprint(notes.read(place))


def test_notes_of_one_name_that_are_deleted_together_are_all_kept(notes: Notes, tmp_path: Path) -> None:
    now = datetime(2025, 11, 27, tzinfo=UTC)
    first = notes.delete([Place("book", "0.txt")], now, 30)
    (tmp_path / "dailynote/book/0.txt").write_text("again", "utf-8")
    second = notes.delete([Place("book", "0.txt")], now, 30)
    assert first.trash_id != second.trash_id
    assert len(notes.trash.deletions()) == 2
    assert notes.trash.restore(first.trash_id, None)[0] == ["book/0.txt"]
    assert (tmp_path / "dailynote/book/0.txt").read_text("utf-8") == "word 0"
    assert notes.trash.restore(second.trash_id, None)[1][0][0] == "book/0.txt"
    assert len(notes.trash.deletions()) == 1


def test_what_is_due_goes_at_the_second_sweep_a_day_later_so_that_a_wrong_clock_costs_nothing(notes: Notes) -> None:
    now, day = datetime(2025, 11, 27, tzinfo=UTC), timedelta(days=1)
    trash = notes.trash
    first = notes.delete([Place("book", "0.txt")], now, 30).trash_id
    kept = [Deleted(first, ("book/0.txt",))]
    ahead = now + 365 * day
    for moment in (ahead, ahead + day / 2, now + day, now - 365 * day, now + 2 * day):
        assert trash.sweep(moment, 30) == 0
        assert trash.deletions() == kept
    assert trash.sweep(now + 31 * day, 30) == 0  # what the clock of the future noted counts for nothing
    assert trash.sweep(now + 31.5 * day, 30) == 0
    assert trash.deletions() == kept
    assert trash.sweep(now + 32 * day, 30) == 1
    assert trash.deletions() == []
    second = notes.delete([Place("book", "1.txt")], now, 30).trash_id
    assert trash.sweep(now + day, 0) == 1, "nothing is to be kept"
    assert second not in [one.id for one in trash.deletions()]


@pytest.mark.parametrize("noted", [b"", b"yesterday", b"2025-01-01T00:00:00", b"\xff" * 100])
def test_a_note_of_the_trash_that_says_no_time_is_written_anew(notes: Notes, tmp_path: Path, noted: bytes) -> None:
    now = datetime(2025, 11, 27, tzinfo=UTC)
    name = notes.delete([Place("book", "0.txt")], now, 30).trash_id
    (tmp_path / TRASH_FOLDER / name / ".due").write_bytes(noted)
    assert notes.trash.sweep(now + timedelta(days=31), 30) == 0
    assert notes.trash.sweep(now + timedelta(days=33), 30) == 1
