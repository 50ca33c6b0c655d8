"""Sets of vectors over a real index: filled, searched, moved, deleted, replaced (memory.md 3.6, 11.3 to 11.6)."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from app.memory.embedders.embedder import Embedded, Signature, Vector
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.vectors.vector_set import VectorSet
from tests.memory.vectors.installation import Installed, installed
from tests.waiting import until

WALK = "[2025-11-27] - 小克\n今天和主人一起散步，看到了银杏。\nTag: 散步, 银杏"
BUG = "[2025-11-28] - 小克\n修好了上传图片时的崩溃，是缓冲区太小。\nTag: 调试"
COOK = "[2025-11-29] - 诺瓦\n晚饭做了番茄炒蛋，主人说盐放多了。"


class Counting(HashingEmbedder):
    """Counts what it is asked, and can be another model or be away."""

    def __init__(self, model: str = "counting/1", *, paid: bool = False) -> None:
        super().__init__()
        self.model = model
        self.asked: list[str] = []
        self.away = ""
        self.is_paid = paid

    @property
    def signature(self) -> Signature:
        return Signature(self.model, super().signature.dimension, "")

    @property
    def paid(self) -> bool:
        return self.is_paid

    async def embed_passages(self, texts: Mapping[str, str]) -> Embedded:
        if self.away:
            return Embedded({}, dict.fromkeys(texts, self.away))
        self.asked += texts.values()
        return await super().embed_passages(texts)


@asynccontextmanager
async def with_vectors(folder: Path) -> AsyncIterator[tuple[Installed, VectorSet]]:
    """Two notes with vectors, and the set of these."""
    async with installed(folder) as part:
        await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
        await part.fill()
        assert part.sets.serving is not None
        yield part, part.sets.serving


async def found(part: Installed, question: str, notebooks: list[str] | None = None) -> list[str]:
    query = await part.sets.embed_query(question)
    assert query is not None
    hits = await part.sets.nearest(query, notebooks, 10)
    records = await part.index.chunks([chunk for chunk, _ in hits])
    return [records[chunk].path for chunk, _ in hits]


def test_a_note_is_found_by_its_vector_and_in_its_notebook_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with installed(tmp_path) as part:
            assert not part.sets.ready()
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG, "诺瓦/1.txt": COOK})
            await part.fill()
            assert part.sets.ready()
            assert not len(part.sets.missing)
            assert (await found(part, "散步看到银杏"))[0] == "小克/1.txt"
            assert await found(part, "散步看到银杏", ["诺瓦"]) == ["诺瓦/1.txt"]
            assert await found(part, "散步", ["没有"]) == []
            query = await part.sets.embed_query("调试")
            assert query is not None
            assert (await part.sets.nearest_tags(query, 1))[0][0] == "调试"
            (name,) = await part.sets.of_texts(["小克"])
            assert name is not None
            assert abs(float(np.linalg.norm(name)) - 1) < 1e-6

    asyncio.run(test())


def test_a_moved_note_keeps_its_vector_and_a_deleted_one_is_gone_at_once(tmp_path: Path) -> None:
    """11.5: moves and renames re-embed nothing. 11.6: what is deleted is not found any more."""

    async def test() -> None:
        async with installed(tmp_path) as part:
            part.embedder[0] = counting = Counting()
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            await part.fill()
            before = len(counting.asked)
            await part.write({"小克/1.txt": None, "公共/改名.md": WALK})
            await part.fill()
            assert counting.asked[before:] == []
            assert (await found(part, "散步看到银杏"))[0] == "公共/改名.md"
            await part.write({"公共/改名.md": None})
            assert await found(part, "散步看到银杏") == ["小克/2.txt"]

    asyncio.run(test())


def test_everything_is_there_after_a_start_and_a_lost_matrix_is_made_anew(tmp_path: Path) -> None:
    """11.3: the tables are the truth."""

    async def test() -> None:
        async with installed(tmp_path) as part:
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            await part.fill()
        (matrix,) = (tmp_path / "vectors").iterdir()
        for damage in (None, b"", b"\0" * matrix.stat().st_size):
            if damage is not None:
                matrix.write_bytes(damage)
            async with installed(tmp_path) as part:
                assert not len(part.sets.missing)
                assert (await found(part, "散步看到银杏"))[0] == "小克/1.txt"

    asyncio.run(test())


def test_a_matrix_that_somebody_wrote_into_is_made_anew_while_the_server_runs(tmp_path: Path) -> None:
    """A search that meets what is no vector finds nothing, warns of nothing, and the next ones are right again."""

    async def test() -> None:
        async with with_vectors(tmp_path) as (part, serving):
            for damage in (b"\xff", b"\x7e"):  # no numbers, and huge ones
                with serving.path.open("r+b") as file:
                    file.write(damage * 4 * serving.dimension)
                assert await found(part, "散步看银杏") == []
                await until(lambda: not serving.healing)
                assert (await found(part, "散步看银杏"))[0] == "小克/1.txt"

    asyncio.run(test())


def test_a_matrix_that_was_cut_in_place_costs_some_answers_and_not_the_server(tmp_path: Path) -> None:
    """The system ends a program that reads a mapped file beyond its end (SIGBUS): nobody reads it until it is whole."""

    async def test() -> None:
        async with with_vectors(tmp_path) as (part, serving):
            query = await part.sets.embed_query("散步看银杏")
            assert query is not None
            chunks = part.sets.with_vectors()
            for length in (0, 5):
                os.truncate(serving.path, length)
                assert await part.sets.nearest(query, None, 10) == []
                assert await part.sets.nearest_tags(query, 10) == []
                assert (await part.sets.of_chunks(chunks))[0] == []
                assert not len(await part.sets.of_notebook("小克", 10))
                await part.sets.of_texts(["散步"])
                await until(lambda: not serving.healing)
                assert (await found(part, "散步看银杏"))[0] == "小克/1.txt"
            os.truncate(serving.path, 0)
            await part.write({"诺瓦/1.txt": COOK})
            await part.fill()  # writes into the file that was cut, which is healed by the next question
            await found(part, "番茄炒蛋")
            await until(lambda: not serving.healing)
            assert (await found(part, "散步看银杏"))[0] == "小克/1.txt"
            assert (await found(part, "番茄炒蛋"))[0] == "诺瓦/1.txt"

    asyncio.run(test())


def test_a_matrix_that_was_cut_on_a_full_disk_is_not_read_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def test() -> None:
        async with with_vectors(tmp_path) as (part, serving):
            os.truncate(serving.path, 0)
            with monkeypatch.context() as patched:
                patched.setattr(os, "posix_fallocate", full)
                for _ in range(2):
                    assert await found(part, "散步看银杏") == []
                    await until(lambda: not serving.healing)
            assert await found(part, "散步看银杏") == []
            await until(lambda: not serving.healing)
            assert (await found(part, "散步看银杏"))[0] == "小克/1.txt"

    asyncio.run(test())


def test_the_old_model_serves_while_the_new_one_is_built_and_then_they_change_places(tmp_path: Path) -> None:
    """11.4; and vectors of two models never meet (8.5)."""

    async def test() -> None:
        async with installed(tmp_path) as part:
            part.embedder[0] = Counting("old/1")
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            await part.fill()
            old = part.sets.serving
            part.embedder[0] = new = Counting("new/1")
            await part.filling.step()
            assert part.sets.serving is old
            assert part.sets.building is not None
            await part.fill()
            assert part.sets.serving is not old
            assert part.sets.serving is not None
            assert part.sets.serving.signature.startswith("new/1")
            assert len(new.asked) == 5  # two chunks, three tags
            assert (await found(part, "散步看到银杏"))[0] == "小克/1.txt"
            assert len(list((tmp_path / "vectors").iterdir())) == 1

    asyncio.run(test())


def test_a_model_that_is_away_never_makes_an_empty_set_serve(tmp_path: Path) -> None:
    async def test() -> None:
        now = [1000.0]
        async with installed(tmp_path, now=now) as part:
            part.embedder[0] = Counting("old/1")
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            await part.fill()
            part.embedder[0] = new = Counting("new/1")
            new.away = "no answer"
            await part.fill()
            assert part.sets.serving is not None
            assert part.sets.serving.signature.startswith("old/1")
            assert part.filling.trouble == "no answer"
            new.away, now[0] = "", now[0] + 60
            await part.fill()
            assert part.sets.serving.signature.startswith("new/1")

    asyncio.run(test())


def test_a_paid_model_waits_for_a_person_who_is_told_how_much_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with installed(tmp_path, confirm_texts=1) as part:
            part.embedder[0] = Counting("old/1")
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            await part.fill()
            part.embedder[0] = new = Counting("new/1", paid=True)
            await part.fill()
            assert new.asked == []
            assert part.filling.unconfirmed is not None
            assert part.filling.unconfirmed.texts == 2
            assert part.filling.unconfirmed.tokens > 0
            assert part.filling.confirm()
            await part.fill()
            assert part.sets.serving is not None
            assert part.sets.serving.signature.startswith("new/1")
            assert not part.filling.confirm()

    asyncio.run(test())


def test_one_bad_text_costs_no_other_and_is_tried_again_later(tmp_path: Path) -> None:
    """11.2."""

    class Picky(Counting):
        async def embed_passages(self, texts: Mapping[str, str]) -> Embedded:
            embedded = await super().embed_passages(texts)
            bad = {name for name, text in texts.items() if self.away == "" and "崩溃" in text}
            vectors: dict[str, Vector] = {name: one for name, one in embedded.vectors.items() if name not in bad}
            return Embedded(vectors, dict.fromkeys(bad, "refused"))

    async def test() -> None:
        now = [1000.0]
        async with installed(tmp_path, now=now) as part:
            part.embedder[0] = picky = Picky()
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            await part.fill()
            assert len(part.sets.missing) == 1
            tried = sum("崩溃" in text for text in picky.asked)
            now[0] += 31
            await part.fill()
            assert sum("崩溃" in text for text in picky.asked) == tried + 1

    asyncio.run(test())
