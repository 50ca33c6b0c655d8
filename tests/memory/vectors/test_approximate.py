"""The picture of a large set: built beside the server, found again, never trusted blindly (memory.md 9.3, 11.25)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from app.memory.vectors import approximate, approximating
from app.memory.vectors.approximating import Approximating
from app.memory.vectors.set_files import remove_strays
from tests.memory.vectors.installation import installed

DIMENSION = 16


def matrix(folder: Path, count: int) -> np.ndarray:
    found = np.random.default_rng(5).normal(size=(count, DIMENSION)).astype(np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    (folder / "1.f32").write_bytes(found.tobytes())
    return found


def test_a_picture_finds_what_is_near_and_honours_what_changed_since(tmp_path: Path) -> None:
    rows = matrix(tmp_path, 3000)
    marks = np.arange(1, 3001, dtype=np.uint64)
    marks[5] = 0  # nothing lies there

    async def test() -> None:
        assert await approximate.build(tmp_path, 1, tmp_path / "1.f32", DIMENSION, marks)

    asyncio.run(test())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.f32", "1.ivf", "1.marks.npz"]
    index = approximate.load(tmp_path, 1)
    assert index is not None
    allowed = np.ones(3000, bool)
    assert 7 in index.nearest(rows[7], allowed, 10)
    allowed[7] = False
    assert 7 not in index.nearest(rows[7], allowed, 10)
    now = np.concatenate((marks, np.asarray([9999, 0], np.uint64)))
    now[8], now[9] = 4242, 0  # used again, and free
    places = np.arange(3001)
    searched = places[places != 9]
    chosen = searched[index.candidates(rows[9], searched, now, 10)]
    assert {8, 3000} <= set(chosen.tolist())  # what is new is always scored
    assert 9 not in chosen
    assert len(chosen) < 400


@pytest.mark.parametrize(
    ("wanted", "rows", "approximately"),
    [
        (200_000, 200_000, False),
        (200_001, 200_001, True),
        (150_000, 200_000, False),  # all of them are read as they lie
        (50_000, 800_000, False),
        (50_001, 800_000, True),  # scattered rows take four times as long
        (60_000, 1_000_000, False),  # the lists that are read hold too few of these
        (100_000, 1_000_000, True),
        (200_001, 10_000_000, True),
    ],
)
def test_a_filter_is_searched_approximately_where_exactly_takes_longer(
    wanted: int, rows: int, approximately: bool
) -> None:
    assert approximate.pays(wanted, rows, 200_000) is approximately


@pytest.mark.parametrize("damage", [b"", b"IwSq" + b"\xff" * 400, None])
def test_a_damaged_picture_is_not_given_to_the_library(tmp_path: Path, damage: bytes | None) -> None:
    matrix(tmp_path, 500)

    async def test() -> None:
        await approximate.build(tmp_path, 1, tmp_path / "1.f32", DIMENSION, np.arange(1, 501, dtype=np.uint64))

    asyncio.run(test())
    if damage is None:
        (tmp_path / "1.marks.npz").write_bytes(b"PK\x03\x04nothing")
    else:
        (tmp_path / "1.ivf").write_bytes(damage)
    assert approximate.load(tmp_path, 1) is None


def test_a_build_that_fails_leaves_nothing_and_a_stop_ends_its_process(tmp_path: Path) -> None:
    async def test() -> None:
        marks = np.ones(40, np.uint64)
        (tmp_path / "1.f32").write_bytes(b"short")
        assert not await approximate.build(tmp_path, 1, tmp_path / "1.f32", DIMENSION, marks)
        matrix(tmp_path, 40)
        task = asyncio.create_task(approximate.build(tmp_path, 1, tmp_path / "1.f32", DIMENSION, marks))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(test())
    assert [path.name for path in tmp_path.iterdir()] == ["1.f32"]


def test_what_a_killed_process_left_is_removed_and_strangers_files_stay(tmp_path: Path) -> None:
    for name in ("1.f32", "2.f32", "2.ivf", "2.marks.npz", "x.f32", "notes.txt"):
        (tmp_path / name).write_bytes(b"1")
    (tmp_path / ".building-abc").mkdir()
    (tmp_path / ".building-abc" / "index").write_bytes(b"1")
    remove_strays(tmp_path, {1})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.f32", "notes.txt", "x.f32"]
    remove_strays(tmp_path / "none", {1})


def test_a_set_above_the_limit_is_answered_by_its_picture_as_exactly_as_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approximating.approximate, "FRESH_ROWS", 5)
    exact = [10**6]

    async def test() -> None:
        async with installed(tmp_path, exact_vectors=lambda: exact[0]) as part:
            await part.write(
                {
                    f"小克/{n}.txt": f"[2025-11-27] - 小克\n第{n}天去了地方{n * 7919 % 1009}，见到{n}号朋友。"
                    for n in range(90)
                }
            )
            await part.fill()
            query = await part.sets.embed_query("去了地方42")
            assert query is not None
            wanted = await part.sets.nearest(query, None, 5)
            exact[0] = 20
            keeping = Approximating(part.sets, lambda: exact[0])
            assert await keeping.step()
            serving = part.sets.serving
            assert serving is not None
            picture = serving.approximate
            assert picture is not None
            assert await part.sets.nearest(query, None, 5) == wanted
            assert await part.sets.nearest(query, ["小克"], 5) == wanted
            await part.write({"小克/新.txt": "[2025-11-28] - 小克\n去了地方42，去了地方42。"})
            await part.fill()
            best = (await part.sets.nearest(query, None, 1))[0][0]
            assert (await part.index.chunks([best]))[best].path == "小克/新.txt"
            assert await keeping.step()
            assert serving.approximate is picture  # too little has changed
        async with installed(tmp_path, exact_vectors=lambda: exact[0]) as part:
            keeping = Approximating(part.sets, lambda: exact[0])
            assert await keeping.step()
            assert part.sets.serving is not None
            assert part.sets.serving.approximate is not None
            assert np.array_equal(part.sets.serving.approximate.marks, picture.marks)  # it was not built again

    asyncio.run(test())
