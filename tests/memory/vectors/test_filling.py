"""What the filling does when things meet, go away, are too many or break (memory.md 11.2 to 11.5, 11.28)."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from app.memory.embedders.embedder import Embedded
from app.memory.vectors import sets as sets_module
from app.memory.vectors import tables, tidying
from app.memory.vectors.filling import LONGEST_PAUSE_SECONDS
from tests.memory.vectors.installation import installed
from tests.memory.vectors.test_sets import BUG, COOK, WALK, Counting, found


def test_an_index_made_anew_costs_no_vector_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """11.3, 11.5: also without any model, and without one call inside another for each batch."""
    monkeypatch.setattr(sets_module, "RECOGNISED", 2)

    async def test() -> None:
        async with installed(tmp_path) as part:
            part.embedder[0] = counting = Counting()
            await part.write({f"小克/{n}.txt": f"[2025-11-27] - 小克\n第{n}天散步。" for n in range(30)})
            await part.fill()
            asked = len(counting.asked)
            await part.sync.begin_anew("a test")
            assert part.sets.places() == 0
            counting.away = "no answer"
            await part.sync.caught_up()
            assert len(part.sets.missing) == 30
            await part.filling.step()
            assert len(part.sets.missing) == 0
            assert len(counting.asked) == asked

    asyncio.run(test())


def test_changes_that_come_while_all_chunks_are_read_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set that begins to serve reads the whole index, which goes on changing meanwhile."""

    async def test() -> None:
        async with installed(tmp_path) as part:
            part.embedder[0] = Counting("old/1")
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            await part.fill()
            part.embedder[0] = Counting("new/1")
            read, meanwhile = part.index.places, [{"小克/1.txt": None, "诺瓦/1.txt": COOK}]

            async def slowly() -> object:
                places = await read()
                if part.sets.building is not None and part.sets.building.count >= 5 and meanwhile:
                    await part.write(meanwhile.pop())
                return places

            monkeypatch.setattr(part.index, "places", slowly)
            await part.fill()
            assert part.sets.serving is not None
            assert part.sets.serving.signature.startswith("new/1")
            assert sorted(await found(part, "晚饭")) == ["小克/2.txt", "诺瓦/1.txt"]
            assert part.sets.places() == 2

    asyncio.run(test())


def test_a_model_that_is_away_is_asked_less_and_less_and_not_by_each_new_note(tmp_path: Path) -> None:
    async def test() -> None:
        now = [1000.0]
        async with installed(tmp_path, now=now) as part:
            part.embedder[0] = counting = Counting()
            counting.away = "no answer"
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            pauses = []
            for _ in range(8):
                pauses.append(await part.filling.step())
                assert 0 < await part.filling.step() <= pauses[-1]  # woken too early
                now[0] += 7 * 3600
            assert pauses[:3] == [30, 60, 120]
            assert pauses[-1] == LONGEST_PAUSE_SECONDS
            counting.away = ""
            await part.fill()
            assert part.sets.ready()

    asyncio.run(test())


def test_a_model_that_asks_to_be_left_alone_is_left_alone(tmp_path: Path) -> None:
    class Limited(Counting):
        async def embed_passages(self, texts: Mapping[str, str]) -> Embedded:
            self.asked += texts.values()
            return Embedded({}, dict.fromkeys(texts, "limit"), retry_after=500.0)

    async def test() -> None:
        now = [1000.0]
        async with installed(tmp_path, now=now) as part:
            part.embedder[0] = limited = Limited()
            await part.write({"小克/1.txt": WALK})
            assert await part.filling.step() == 500
            asked = len(limited.asked)
            await part.write({"小克/2.txt": BUG})
            now[0] += 499
            assert await part.filling.step() == 1
            assert len(limited.asked) == asked

    asyncio.run(test())


@pytest.mark.parametrize("days", [1, 365])
def test_a_clock_that_was_set_back_leaves_no_model_and_no_text_alone_for_long(tmp_path: Path, days: int) -> None:
    async def test() -> None:
        now = [1e9]
        async with installed(tmp_path, now=now) as part:
            part.embedder[0] = counting = Counting()
            counting.away = "away"
            await part.write({"小克/1.txt": WALK, "小克/2.txt": COOK})
            assert await part.filling.step() > 0
            now[0] -= days * 86_400
            counting.away = ""
            await part.filling.step()
            await part.fill()
            assert not len(part.sets.missing)

    asyncio.run(test())


def test_fresh_notes_are_found_while_another_set_is_built(tmp_path: Path) -> None:
    async def test() -> None:
        now = [1000.0]
        async with installed(tmp_path, now=now) as part:
            part.embedder[0] = old = Counting("old/1")
            await part.write({"小克/1.txt": WALK, "小克/2.txt": BUG})
            await part.fill()
            part.embedder[0] = new = Counting("new/1")
            new.away = "slow"
            part.embedders._made[part.embedders._choice()] = new
            part.sets.embedder_of = lambda _: old  # type: ignore[method-assign]
            part.embedders.of = lambda _: old  # type: ignore[method-assign]
            await part.filling.step()
            assert part.sets.building is not None
            await part.write({"诺瓦/1.txt": COOK})
            now[0] += await part.filling.step()
            await part.filling.step()
            assert "诺瓦/1.txt" in await found(part, "晚饭")

    asyncio.run(test())


def test_vectors_of_texts_that_are_gone_go_after_a_while_and_only_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that comes back soon costs nothing; a disk that is not there for a day does not cost everything."""
    monkeypatch.setattr(tidying, "SWEPT_LEAST", 1)

    async def test() -> None:
        now = [1000.0]
        async with installed(tmp_path, now=now) as part:
            part.embedder[0] = counting = Counting()
            notes = {f"小克/{n}.txt": f"[2025-11-27] - 小克\n第{n}天散步。" for n in range(4)}
            await part.write(notes)
            await part.fill()
            serving = part.sets.serving
            assert serving is not None
            await part.write(dict.fromkeys(notes, None))
            await part.filling.step()
            assert serving.count == 4
            now[0] += tidying.SWEEP_SECONDS
            await part.filling.step()  # seen without a chunk for the first time
            assert serving.count == 4
            await part.write({"小克/0.txt": notes["小克/0.txt"]})
            await part.fill()
            assert len(counting.asked) == 4
            for left in (3, 2, 1, 1):
                now[0] += tidying.SWEEP_SECONDS
                await part.filling.step()
                assert serving.count == left
            await part.write(notes)
            await part.fill()
            assert len(counting.asked) == 7
            assert len(await found(part, "散步")) == 4
            rows = await part.sets.database.read(lambda connection: tables.all_rows(connection, serving.id))
            assert sorted(rows.values()) == [0, 1, 2, 3]  # rows are used again

    asyncio.run(test())


def test_a_set_is_measured_with_questions_from_eight_notes_on(tmp_path: Path) -> None:
    """2.6: mean and deviation of cosines of questions with chunks that have nothing to do with them."""

    async def test() -> None:
        async with installed(tmp_path) as part:
            notes = {
                f"小克/{n}.txt": f"[2025-11-27] - 小克\n第{n}天去了第{n * 37 % 101}条街。看见{n}号朋友。"
                for n in range(12)
            }
            await part.write(dict(list(notes.items())[:7]))
            await part.fill()
            assert part.sets.serving is not None
            assert part.sets.serving.calibration is None
            await part.write(notes)
            await part.fill()
            serving = part.sets.serving
            assert serving is not None
            assert serving.calibration is not None
            assert -0.2 < serving.calibration.mean < 0.9
            assert part.sets.calibration() == serving.calibration
            kept = serving.calibration
        async with installed(tmp_path) as part:
            assert part.sets.calibration() == kept

    asyncio.run(test())


def test_a_question_is_a_short_sentence_of_the_middle() -> None:
    assert tidying.question_of("第一句话。中间的一句话。最后一句话。") == "中间的一句话"
    assert tidying.question_of("。。") == ""
    assert len(tidying.question_of("字" * 900)) == tidying.QUESTION_CHARS


def test_whoever_asks_and_goes_away_leaves_no_row_that_two_texts_share(tmp_path: Path) -> None:
    async def test() -> None:
        async with installed(tmp_path) as part:
            await part.write({"小克/1.txt": WALK})
            await part.fill()
            for turns in range(12):
                task = asyncio.create_task(part.sets.of_texts([f"名字{turns}", f"又{turns}"]))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            serving = part.sets.serving
            assert serving is not None
            await part.sets.of_texts(["最后"])
            rows = await part.sets.database.read(lambda connection: tables.all_rows(connection, serving.id))
            assert len(set(rows.values())) == len(rows)
            texts = ["最后", *(f"名字{turns}" for turns in range(12))]
            vectors = await part.sets.of_texts(texts)
            own = await part.embedder[0].embed_passages({text: text for text in texts})
            assert all(
                vector is not None and np.allclose(vector, own.vectors[text])
                for text, vector in zip(texts, vectors, strict=True)
            )

    asyncio.run(test())


def test_damaged_tables_are_made_anew_and_filled_again(tmp_path: Path) -> None:
    """11.3: also when the damage is met while the server runs."""

    async def test() -> None:
        async with installed(tmp_path) as part:
            notes = {f"小克/{n}.txt": f"[2025-11-27] - 小克\n第{n}天散步。" for n in range(60)}
            await part.write(notes)
            await part.fill()
            await part.sets.heal("nothing is wrong")
            assert part.sets.serving is not None
            await part.sets.database.checkpoint()
            file = tmp_path / "vectors.sqlite"
            with file.open("r+b") as opened:
                opened.seek(4096)
                opened.write(b"\xff" * 40_000)
            await part.sets.heal("a test")
            assert part.sets.serving is None
            assert await part.sets.nearest(np.zeros(4, np.float32), None, 3) == []
            await part.fill()
            assert len(await found(part, "散步")) == 10
            assert (tmp_path / "vectors.sqlite.broken").exists()

    asyncio.run(test())


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with installed(tmp_path) as part:
            await part.write({"小克/1.txt": WALK})
            await part.fill()
            await part.write({"小克/2.txt": BUG})

            def full(*_: object) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            serving = part.sets.serving
            assert serving is not None
            with monkeypatch.context() as patched:
                patched.setattr(serving._matrix, "write", full)
                with pytest.raises(OSError, match="space"):
                    await part.filling.step()
            assert await found(part, "散步看到银杏") == ["小克/1.txt"]
            await part.fill()
            assert (await found(part, "修好了上传图片时的崩溃"))[0] == "小克/2.txt"

    asyncio.run(test())
