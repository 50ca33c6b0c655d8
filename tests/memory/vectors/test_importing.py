"""An existing VectorStore is looked through, and only vectors of the same model are taken over (memory.md 3.5)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from app.memory.embedders.hashing import HashingEmbedder
from app.memory.index.chunks import clean
from app.memory.vectors.importing import Imported, Importing
from app.memory.vectors.old_store import ImportRefusedError
from tests.memory.vectors.installation import Installed, installed
from tests.memory.vectors.test_sets import Counting

NOTE = "今天看到了银杏。"
TAGGED = "[2025-11-27] - 小克\n散步。\nTag: 银杏, 秋天"


def store(folder: Path, chunks: list[tuple[str, bytes]], tags: dict[str, bytes], files: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    connection = sqlite3.connect(folder / "knowledge_base.sqlite")
    connection.executescript(
        "CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE, diary_name TEXT, checksum TEXT);"
        "CREATE TABLE chunks (id INTEGER PRIMARY KEY, file_id, chunk_index, content TEXT, vector BLOB);"
        "CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT UNIQUE, vector BLOB);"
        "CREATE TABLE kv_store (key TEXT PRIMARY KEY, value TEXT, vector BLOB);"
    )
    connection.executemany("INSERT INTO files (path, checksum) VALUES (?, ?)", files.items())
    connection.executemany("INSERT INTO chunks (content, vector) VALUES (?, ?)", chunks)
    connection.executemany("INSERT INTO tags (name, vector) VALUES (?, ?)", tags.items())
    connection.commit()
    connection.close()
    return folder


def blob(text: str, scale: float = 3.0) -> bytes:
    vector = asyncio.run(HashingEmbedder().embed_passages({"": clean(text)})).vectors[""]
    return (vector * scale).astype("<f4").tobytes()


async def imported(part: Installed, path: Path, *, write: bool) -> Imported:
    importing = Importing(part.sets, part.index, part.embedders, lambda: part.root)
    return await importing.run(path, write=write)


def test_a_dry_run_writes_nothing_and_the_import_saves_what_the_model_made(tmp_path: Path) -> None:
    size = HashingEmbedder().signature.dimension
    checksum = hashlib.md5(TAGGED.encode()).hexdigest()
    bad = np.full(size, np.nan, "<f4").tobytes()
    path = store(
        tmp_path / "VectorStore",
        [(NOTE, blob(NOTE)), ("别的文字在这里", blob("别的文字在这里")), ("坏", bad), ("短", b"abc"), ("x", b"")],
        {"银杏": blob("银杏"), "没有": blob("没有")},
        {"小克/1.txt": checksum, "小克/2.txt": "0" * 32, "../../etc/passwd": "", "小克/\0": "", "小克/没有.txt": "1"},
    )
    before = (path / "knowledge_base.sqlite").read_bytes()

    async def test() -> None:
        async with installed(tmp_path / "home") as part:
            part.embedder[0] = counting = Counting()
            await part.write({"小克/1.txt": TAGGED, "小克/2.txt": NOTE})
            dry = await imported(part, path, write=False)
            assert (dry.files, dry.stale_files, dry.missing_files) == (5, 1, 3)
            assert (dry.chunks, dry.bad_vectors, dry.tags, dry.reason) == (5, 3, 1, "")
            assert dry.reused == dry.matched >= 1
            assert part.sets.serving is None
            assert counting.asked == []
            done = await imported(part, path, write=True)
            assert (done.reused, done.to_embed) == (dry.reused, dry.to_embed)
            asked = len(counting.asked)
            await part.fill()
            assert "银杏" not in counting.asked
            assert len(counting.asked) - asked == done.to_embed - 1  # the name of the notebook is asked for by recall
            again = await imported(part, path, write=True)
            assert again.reused == 0

    asyncio.run(test())
    assert (path / "knowledge_base.sqlite").read_bytes() == before
    assert [one.name for one in path.iterdir()] == ["knowledge_base.sqlite"]


def test_a_note_that_is_one_fragment_in_both_keeps_its_vector(tmp_path: Path) -> None:
    """The other store embeds first line and tag line as they stand, ours puts them in a header: the same words."""
    content = "[2025-11-27] - 小克 散步。 Tag: 银杏, 秋天"
    path = store(tmp_path / "VectorStore", [(content, blob(content)), ("别的", blob("别的"))], {}, {})

    async def test() -> None:
        async with installed(tmp_path / "home") as part:
            part.embedder[0] = counting = Counting()
            await part.write({"小克/1.txt": TAGGED, "小克/2.txt": NOTE})
            assert (await imported(part, path, write=False)).matched == 1
            done = await imported(part, path, write=True)
            assert (done.reused, done.tags) == (1, 0)
            await part.fill()
            assert not any("散步" in text for text in counting.asked if "[2025" not in text)
            assert any("银杏" in text for text in counting.asked)

    asyncio.run(test())


def test_vectors_of_another_model_or_dimension_are_never_mixed_in(tmp_path: Path) -> None:
    size = HashingEmbedder().signature.dimension
    other = np.random.default_rng(1).normal(size=size).astype("<f4").tobytes()
    wrong = store(tmp_path / "wrong", [("银杏树下", other)], {"银杏": other}, {})
    small = store(tmp_path / "small", [("银杏树下", np.ones(3, "<f4").tobytes())], {}, {})

    async def test() -> None:
        async with installed(tmp_path / "home") as part:
            await part.write({"小克/1.txt": TAGGED})
            found = await imported(part, wrong, write=True)
            assert "model" in found.reason
            assert found.reused == 0
            found = await imported(part, small, write=True)
            assert "dimension" in found.reason
            assert part.sets.serving is None

    asyncio.run(test())


def test_what_stands_in_the_wal_is_read_from_a_copy(tmp_path: Path) -> None:
    path = store(tmp_path / "VectorStore", [], {}, {})
    file = path / "knowledge_base.sqlite"
    writer = sqlite3.connect(file)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO chunks (content, vector) VALUES (?, ?)", (NOTE, blob(NOTE)))
    writer.commit()
    before = file.read_bytes()

    async def test() -> None:
        async with installed(tmp_path / "home") as part:
            await part.write({"小克/1.txt": TAGGED})
            assert (await imported(part, path, write=False)).chunks == 1
        assert not list((tmp_path / "home" / "vectors").iterdir())

    asyncio.run(test())
    assert file.read_bytes() == before
    writer.close()


@pytest.mark.parametrize("kind", ["text", "other", "view", "none", "pipe", "nul", "torn"])
def test_a_hostile_file_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "knowledge_base.sqlite"
    if kind == "text":
        path.write_bytes(b"no database at all" * 500)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "nul":
        path = tmp_path / "a\0b"
    elif kind == "torn":
        store(tmp_path, [(NOTE * 50, b"\0" * 4096)] * 50, {}, {})
        path.write_bytes(path.read_bytes()[:6000])
    elif kind != "none":
        connection = sqlite3.connect(path)
        if kind == "view":
            connection.execute("CREATE TABLE files (path, checksum)")
            connection.execute(
                "CREATE VIEW chunks AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id FROM n) "
                "SELECT id, '' AS content, zeroblob(8) AS vector FROM n"
            )
        else:
            connection.execute("CREATE TABLE other (id)")
        connection.commit()
        connection.close()

    async def test() -> None:
        async with installed(tmp_path / "home") as part:
            await part.write({"小克/1.txt": TAGGED})
            with pytest.raises(ImportRefusedError):
                await imported(part, path, write=True)

    asyncio.run(test())
