"""The cache of clients' files: limits, expiry, and files that somebody has spoilt (spec 5.9, D62, B34)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from app.extend import FileCopy
from app.plugins import file_copies
from app.plugins.file_copies import Copy, FileCopies, old_name


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = self.began = time.time()
        self.limit = 1_000
        self.copies = FileCopies(folder, lambda: self.now, lambda: self.limit)

    def keep(self, name: str, content: bytes = b"x", client: str = "c") -> None:
        self.copies.keep(client, f"file:///{name}", Copy(content, "text/plain", FileCopy("attic", "v1")))

    def has(self, name: str, client: str = "c") -> bytes | None:
        found = self.copies.find(client, f"file:///{name}")
        return found and found.content

    def files(self, kind: str) -> list[Path]:
        return sorted((self.folder / kind).iterdir())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "cache")


def test_what_was_kept_is_found_by_its_client_and_address_alone(bench: Bench) -> None:
    bench.keep("a")
    assert bench.copies.find("c", "file:///a") == Copy(b"x", "text/plain", FileCopy("attic", "v1"))
    assert (bench.has("b"), bench.has("a", "d"), bench.has("a", "c\0")) == (None, None, None)


def test_beyond_a_number_the_oldest_go_and_their_bytes_when_nobody_else_has_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copies, "CACHE_FILES", 2)
    for name, content in (("a", b"same"), ("b", b"other"), ("c", b"same")):
        bench.keep(name, content)
        bench.now += 1
    assert [bench.has(name) for name in "abc"] == [None, b"other", b"same"]
    assert len(bench.files("content")) == 2
    bench.keep("d", b"fourth")
    assert len(bench.files("content")) == 3, "somebody else may be about to point to young content"
    bench.now += 120
    bench.copies.sweep()
    assert {path.read_bytes() for path in bench.files("content")} == {b"same", b"fourth"}


def test_beyond_so_many_bytes_the_oldest_go_and_shared_bytes_count_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copies, "CACHE_BYTES", 20)
    for name, content in (("a", b"1" * 10), ("b", b"2" * 10), ("c", b"2" * 10)):
        bench.keep(name, content)
        bench.now += 1
    assert [bench.has(name) is not None for name in "abc"] == [True, True, True]
    bench.keep("d", b"3")
    assert [bench.has(name) is not None for name in "abcd"] == [False, True, True, True]


def test_copies_end_with_their_age_and_with_them_those_of_older_installations(bench: Bench) -> None:
    bench.keep("a")
    old = bench.folder / old_name("file:///z.png")
    old.write_bytes(b"old")
    os.utime(old, (bench.began, bench.began))
    (bench.folder / "mine.txt").write_text("not a copy")
    bench.now += file_copies.CACHE_DAYS * 86_400 + 1
    assert (bench.has("a"), bench.copies.find_old("file:///z.png")) == (None, None)
    bench.copies.sweep()
    assert [path.name for path in bench.folder.rglob("*") if path.is_file()] == ["mine.txt"]


def test_a_clock_that_was_far_ahead_leaves_nothing_for_ever(bench: Bench) -> None:
    bench.now += 10 * 365 * 86_400
    bench.keep("a")
    bench.now = bench.began
    assert bench.has("a") is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b'{"digest": "../../../etc/passwd"}',
        b"[" * 5_000,
        b'{"a":"' + b"a" * 5_000 + b'"}',
    ],
)
def test_what_is_no_entry_is_none_and_goes(bench: Bench, text: bytes) -> None:
    bench.keep("a")
    (entry,) = bench.files("index")
    entry.write_bytes(text)
    assert bench.has("a") is None
    bench.copies.sweep()
    assert bench.files("index") == []


@pytest.mark.parametrize("field", ["digest", "size", "mediaType", "holder", "version", "time"])
@pytest.mark.parametrize("value", [None, [], {}, "../x"])
def test_an_entry_of_the_wrong_shape_leads_to_no_file(bench: Bench, field: str, value: object) -> None:
    bench.keep("a")
    (entry,) = bench.files("index")
    entry.write_text(json.dumps(json.loads(entry.read_text()) | {field: value}))
    allowed = isinstance(value, str) and field in ("mediaType", "holder", "version")
    assert (bench.has("a") is not None) is allowed


@pytest.mark.parametrize("spoilt", [b"y", b"", None, b"x" * 2_000])
def test_content_that_was_spoilt_is_not_served_and_is_made_whole_by_the_next(
    bench: Bench, spoilt: bytes | None
) -> None:
    bench.keep("a")
    (content,) = bench.files("content")
    content.unlink() if spoilt is None else content.write_bytes(spoilt)
    assert bench.has("a") is None
    bench.keep("a")
    assert bench.has("a") == b"x"


def test_a_link_or_a_pipe_in_the_place_of_a_copy_is_not_followed_by_the_sweep(bench: Bench, tmp_path: Path) -> None:
    bench.keep("a")
    precious = tmp_path / "precious"
    precious.write_text("p")
    (bench.folder / "content" / "link").symlink_to(precious)
    os.mkfifo(bench.folder / old_name("file:///pipe"))
    bench.now += 1_000
    bench.copies.sweep()
    assert bench.copies.find_old("file:///pipe") is None
    assert precious.read_text() == "p"
    assert bench.has("a") == b"x"
