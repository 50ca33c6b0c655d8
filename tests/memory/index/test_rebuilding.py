"""An index is made anew beside the one that is there (memory.md 11.3)."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.memory.index.database import NEW, IndexUnavailableError
from app.memory.index.rebuilding import rebuild
from app.memory.index.records import IndexChange
from tests.memory.index.conftest import Home, found, lines
from tests.server import run


def beside(home: Home) -> list[str]:
    return sorted(path.name for path in home.file.parent.iterdir() if NEW in path.name)


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The system lets no file of this process become larger, as a disk without room does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_old_index_answers_until_the_new_one_is_whole_and_every_chunk_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        home.write(f"小克/{number}.txt", f"第{number}篇 关于行星")
    seen: list[int] = []

    async def main() -> None:
        async with home.synced() as (index, sync):
            changes: list[IndexChange] = []
            renewed: list[int] = []
            index.changed(changes.append)
            index.renewed(lambda: renewed.append(len(changes)))
            generation = index.notebooks()["小克"].generation
            take_over = index.take_over

            async def looked(whole: Path) -> None:
                seen.append(len(await found(index, "行星")))
                home.write("小克/late.txt", "刚写的 关于行星")
                await take_over(whole)

            monkeypatch.setattr(index, "take_over", looked)
            await rebuild(index, sync, "a test")
            assert seen == [5]
            assert renewed == [0]
            assert {chunk.id for change in changes for chunk in change.added} == {
                place.id for place in await index.places()
            }
            assert index.notebooks()["小克"].generation > generation
            assert len(await found(index, "行星")) == 6
            assert await lines(index) == await home.clean()
        assert beside(home) == []

    run(main())


@pytest.mark.parametrize("with_task", [True, False])
def test_a_full_disk_keeps_the_index_that_is_there(home: Home, *, with_task: bool) -> None:
    for number in range(60):
        home.write(f"小克/{number}.txt", f"第{number}篇 关于行星 " + "很长的话 " * 300)

    async def main() -> None:
        async with home.synced() as (index, sync):
            if not with_task:
                await sync.stop()
            before = await lines(index)
            with no_file_above(200_000), pytest.raises(IndexUnavailableError):
                await rebuild(index, sync, "a test")
            assert len(await found(index, "行星")) == 20
            assert await lines(index) == before
            assert beside(home) == []
            assert not home.file.with_name(f"{home.file.name}.broken").exists()
            await rebuild(index, sync, "a test")
            assert await lines(index) == before

    run(main())


def test_a_new_file_that_is_gone_leaves_the_old_one_in_its_place(home: Home) -> None:
    home.write("小克/a.txt", "关于行星")

    async def main() -> None:
        async with home.synced() as (index, sync):
            with pytest.raises(IndexUnavailableError):
                await sync.go_on_with(home.file.with_name("gone"))
            assert await found(index, "行星") == ["小克/a.txt"]

    run(main())


def test_what_a_killed_rebuild_left_is_removed_at_the_next_start(home: Home) -> None:
    home.write("小克/a.txt", "关于行星")
    home.file.parent.mkdir(parents=True, exist_ok=True)
    for ending in ("", "-wal", "-shm"):
        home.file.with_name(f"{home.file.name}{NEW}{ending}").write_bytes(b"half")

    async def main() -> None:
        async with home.synced() as (index, _):
            assert await found(index, "行星") == ["小克/a.txt"]
            assert beside(home) == []

    run(main())


def test_a_clock_that_was_set_back_never_repeats_a_generation(home: Home) -> None:
    """Answers are kept by the generation of their notebook (3.7): a file made anew must not use one again."""
    home.write("小克/a.txt", "关于行星")

    async def main() -> None:
        async with home.synced() as (index, sync):
            future = 4_000_000_000_000  # what a clock decades ahead had given
            await index.database.write(
                lambda c: c.execute("UPDATE facts SET value = ? WHERE name = 'commits'", (future,))
            )
            home.write("小克/a.txt", "关于恒星")
            sync.glance()
            await sync.settled()
            assert index.notebooks()["小克"].generation > future
            generations = [index.notebooks()["小克"].generation]
            for anew in (lambda: rebuild(index, sync, "a test"), lambda: sync.begin_anew("a test")):
                await anew()
                await sync.caught_up()
                generations.append(index.notebooks()["小克"].generation)
            assert generations == sorted(set(generations))

    run(main())
