"""Traces on the disk: found, searched, limited, private, and never in the way (P88 of a store: damage, full disks)."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.observe.traces import store as module
from app.observe.traces.database import TracesUnavailableError
from app.observe.traces.store import TraceStore, Wanted
from tests.observe.traces.making import START, chat, document_of, documents

ROOT = Path(__file__).parents[3]


def filled(path: Path, count: int = 5) -> TraceStore:
    store = TraceStore(path / "traces" / "traces.sqlite")
    store.add(list(documents(count)))
    return store


def ids(store: TraceStore, **wanted: object) -> list[str]:
    return [row.id for row in store.page(Wanted(**wanted)).rows]  # type: ignore[arg-type]


def test_a_trace_comes_back_as_it_was_kept_and_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    assert store.one("turn-0") == {**document_of(*chat()), "id": "turn-0"}
    assert store.one("other") is None
    folder = tmp_path / "traces"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_pages_go_back_from_the_newest_without_a_gap(tmp_path: Path) -> None:
    store = filled(tmp_path, 7)
    seen: list[str] = []
    page = store.page(Wanted(limit=3))
    while True:
        seen += [row.id for row in page.rows]
        if page.next is None:
            break
        page = store.page(Wanted(limit=3, after=page.next))
    assert seen == [f"turn-{number}" for number in reversed(range(7))]


def test_traces_are_found_by_outcome_model_agent_tool_time_and_words(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.sqlite")
    other = document_of(*chat("x", model="other", question="天气怎么样 WEATHER", tool="Sky"))
    store.add([*documents(2), {**other, "outcome": "error", "started": START + 10}])
    assert ids(store, outcome="error") == ids(store, model="other") == ids(store, tool="Sky") == ["x"]
    assert ids(store, agent="Nova", kind="turn") == ["x", "turn-1", "turn-0"] and ids(store, kind="call") == []
    assert ids(store, since=START + 1, until=START + 1) == ["turn-1"]
    assert ids(store, words="天气 weather") == ["x"] and ids(store, words="%") == [] == ids(store, words="_")
    assert ids(store, model="m'; DROP TABLE traces; --") == [] and store.count() == 3
    assert store.choices() == module.Choices(("m", "other"), ("Nova",), ("Echo", "Sky"))


def test_a_search_looks_through_a_limited_number_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SCANNED", 3)
    store = filled(tmp_path, 7)
    store.add([{**document_of(*chat("old", question="needle")), "started": START - 1}])
    page = store.page(Wanted(words="needle"))
    assert (page.rows, page.searched_to) == ((), START + 4)
    page = store.page(Wanted(words="needle", after=page.next))
    page = store.page(Wanted(words="needle", after=page.next))
    assert [row.id for row in page.rows] == ["old"] and page.next is None


def test_what_is_too_old_goes_and_the_oldest_go_first_when_all_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELETED_AT_ONCE", 5)
    store = TraceStore(tmp_path / "t.sqlite")
    noise = [os.urandom(3000).hex() for _ in range(60)]
    store.add([{**one, "noise": noise[number]} for number, one in enumerate(documents(60))])
    store.keep(START + 10, 10**9)
    assert store.count() == 50 and ids(store)[-1] == "turn-10"
    before = store.path.stat().st_size
    store.keep(0, 130_000)
    assert 5 <= store.count() < 50 and ids(store, limit=1) == ["turn-59"]
    assert store.path.stat().st_size < before  # the room is the disk's again


def test_one_and_all_can_be_deleted_for_good(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.sqlite")
    store.add([document_of(*chat("a", question="MARK-OF-A")), document_of(*chat("b"))])
    assert store.delete("a") == 1 and store.delete("a") == 0 and store.one("a") is None
    assert store.delete() == 1 and store.count() == 0
    store.close()
    assert b"MARK-OF-A".lower() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_what_belongs_to_a_trace_is_found(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    base = document_of(*chat())
    store.add([{**base, "id": "inner", "parent": "turn-0"}, {**base, "id": "again", "replay_of": "turn-0"}])
    assert {row.id for row in store.related("turn-0")} == {"inner", "again"}


def test_a_damaged_file_is_moved_aside_and_a_new_one_made(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(b"this is no database at all" * 100)
    store = TraceStore(path)
    with pytest.raises(TracesUnavailableError):
        store.add(list(documents(1)))
    store.add(list(documents(1)))
    assert store.count() == 1 and (tmp_path / "t.sqlite.broken").read_bytes().startswith(b"this is no")
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 6] = os.urandom(4096 * 4)
    path.write_bytes(data)
    with pytest.raises(TracesUnavailableError):
        for _ in range(2):
            store.page(Wanted())
            store.one("turn-0")
            store.choices()
    assert not path.exists() and store.count() == 0


def test_a_file_of_another_version_is_moved_aside(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.close()
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    assert store.page(Wanted()).rows == ()
    store.add(list(documents(1)))
    assert store.count() == 1 and Path(f"{store.path}.old").exists()


def test_names_that_sqlite_cannot_keep_are_made_whole(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.sqlite")
    store.add([document_of(*chat("a", model="m\0\ud800", tool="T\ud800"))])
    (row,) = store.page(Wanted()).rows
    assert row.model == "m\N{REPLACEMENT CHARACTER}?" and store.choices().tools == ("T?",)


def test_p43_a_process_that_is_killed_while_it_writes_leaves_whole_traces(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    program = f"""
import itertools, sys
from pathlib import Path
from app.observe.traces.store import TraceStore
from tests.observe.traces.making import documents
store = TraceStore(Path({str(path)!r}))
made = list(documents(20))
for number in itertools.count():
    store.add([{{**one, "id": one["id"] + "-" + str(number)}} for one in made])
    print(number, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        for _ in range(5):
            assert child.stdout.readline()
    finally:
        child.kill()
        child.communicate()
    store = TraceStore(path)
    assert store.count() >= 100 and store.count() % 20 == 0
    assert store.one("turn-19-4") is not None
    store.add(list(documents(1)))
