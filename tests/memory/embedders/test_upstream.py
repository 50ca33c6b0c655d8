"""The embedding model of the upstream over real HTTP: batches, faults, limits (memory.md 3.4, 8.5, 11.2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.demo.script import Answer, Received, Reply, Scripted, json_reply, raw_reply
from app.demo.scripted import ScriptedUpstream
from app.demo.upstream import create_demo
from app.errors import EmbeddingError
from app.memory.embedders.upstream import BATCH_TEXTS, UpstreamEmbedder, UpstreamRules
from app.memory.embedders.use_limits import USE_FILE, Limits, UseLimits
from app.upstream.client import UpstreamClient
from app.upstream.embeddings import Embeddings
from app.upstream.limits import UpstreamLimits
from app.upstream.retry import RetryPolicy
from app.upstream.targets import SingleUpstream
from app.web.server import serve
from tests.server import run

Script = Iterable[Scripted] | Callable[[Received], Reply | Answer]


class Bench:
    """An embedder before an upstream, whose waits take no time and are remembered."""

    def __init__(self, url: str, home: Path) -> None:
        self.rules, self.limits, self.waits, self.now = UpstreamRules(), Limits(), list[float](), 0.0
        self.client = UpstreamClient(
            SingleUpstream(url, "secret-key-123"), RetryPolicy(1, 1), UpstreamLimits(5, 5, 5), environment={}
        )
        limits = UseLimits(
            lambda: self.limits,
            home / USE_FILE,
            timer=lambda: self.now,
            clock=lambda: 1_764_000_000 + self.now,
            zone=lambda: UTC,
        )
        self.embedder = UpstreamEmbedder(
            "vec",
            Embeddings(lambda: self.client, lambda: "").answer,
            rules=lambda: self.rules,
            limits=limits,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@asynccontextmanager
async def bench(home: Path, script: Script) -> AsyncIterator[tuple[Bench, ScriptedUpstream]]:
    async with ScriptedUpstream(script) as up:
        made = Bench(up.base_url, home)
        await made.client.start()
        try:
            yield made, up
        finally:
            await made.client.stop()


def vectors(texts: list[str]) -> list[dict[str, Any]]:
    """A vector for each text that tells which one it is of: the direction is its last number."""
    return [{"index": n, "embedding": of(text)} for n, text in enumerate(texts)]


def of(text: str) -> list[float]:
    return [3.0, 4.0 * (1 + int("".join(filter(str.isdigit, text)) or 0))]


def good(request: Received) -> Reply:
    return json_reply({"data": list(reversed(vectors(request.json["input"])))})


def direction(vector: Any) -> int:
    return round(float(vector[1] / vector[0]) * 3 / 4) - 1


def test_vectors_go_to_the_text_that_they_are_of_whatever_the_order_of_the_answer(tmp_path: Path) -> None:
    """11.2: matched by id, never by position; too long texts are cut and leave no hole (BUG of 3.4)."""

    async def main() -> None:
        async with bench(tmp_path, good) as (b, up):
            b.rules = UpstreamRules(max_tokens=100)
            texts = {f"id{n}": f"{n} " + "字" * (5000 if n == 3 else 5) for n in range(250)}
            answer = await b.embedder.embed_passages(texts)
            assert not answer.failed and answer.retry_after == 0
            assert {name: direction(vector) for name, vector in answer.vectors.items()} == {
                f"id{n}": n for n in range(250)
            }
            assert all(vector.dtype == np.float32 for vector in answer.vectors.values())
            assert all(abs(float(vector @ vector) - 1) < 1e-5 for vector in answer.vectors.values())
            assert all(len(body["input"]) <= BATCH_TEXTS for body in up.bodies)  # type: ignore[index,call-overload]
            assert max(len(text) for body in up.bodies for text in body["input"]) <= 86  # type: ignore[index,call-overload]
            assert b.embedder.signature.key() == "upstream:vec|2|unit"

    run(main())


def test_a_batch_holds_a_hundred_texts_or_the_safe_number_of_tokens(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, good) as (b, up):
            b.rules = UpstreamRules(max_tokens=1000, concurrency=1)
            await b.embedder.embed_passages({str(n): "字" * 84 for n in range(15)})
            await b.embedder.embed_passages({str(n): "a" for n in range(101)})
            assert [len(body["input"]) for body in up.bodies] == [10, 5, 100, 1]  # type: ignore[index,call-overload]

    run(main())


def test_as_many_batches_run_at_a_time_as_the_settings_say(tmp_path: Path) -> None:
    async def main() -> None:
        running = most = 0

        async def ask(texts: Any, _model: str) -> bytes:
            nonlocal running, most
            running += 1
            most = max(most, running)
            for _ in range(5):
                await asyncio.sleep(0)
            running -= 1
            import orjson

            return orjson.dumps({"data": vectors(list(texts))})

        limits = UseLimits(Limits, tmp_path / USE_FILE, timer=float, clock=float, zone=lambda: UTC)
        embedder = UpstreamEmbedder("vec", ask, rules=lambda: UpstreamRules(concurrency=3), limits=limits)
        answer = await embedder.embed_passages({str(n): str(n) for n in range(1000)})
        assert len(answer.vectors) == 1000 and most == 3

    run(main())


def odd(entry: dict[str, Any]) -> Callable[[Received], Reply]:
    """An upstream that answers well, but for the text ``7 bad``."""

    def answer(request: Received) -> Reply:
        entries = vectors(request.json["input"])
        for place, text in enumerate(request.json["input"]):
            if text == "7 bad":
                entries[place] = {"index": place, **entry}
        return json_reply({"data": [one for one in entries if one is not None]})

    return answer


ODD: list[dict[str, Any]] = [
    {"embedding": [0.0, 0.0]},
    {"embedding": []},
    {"embedding": [1.0, None]},
    {"embedding": "AAAA"},
    {"embedding": [1.0, 2.0, 3.0]},
    {"embedding": {}},
    {"index": 99},
    {"index": None, "embedding": [1, 2]},
    {"index": True, "embedding": [1, 2]},
]


@pytest.mark.parametrize("entry", ODD)
def test_an_answer_that_is_bad_for_one_text_costs_only_that_one(tmp_path: Path, entry: dict[str, Any]) -> None:
    async def main() -> None:
        async with bench(tmp_path, odd(entry)) as (b, _):
            answer = await b.embedder.embed_passages({str(n): f"{n} {'bad' if n == 7 else ''}" for n in range(20)})
            assert set(answer.failed) == {"7"} and answer.retry_after == 0
            assert all(direction(vector) == int(name) for name, vector in answer.vectors.items())
            assert len(answer.vectors) == 19

    run(main())


def test_an_index_that_is_named_twice_belongs_to_nobody(tmp_path: Path) -> None:
    def answer(request: Received) -> Reply:
        entries = vectors(request.json["input"])
        return json_reply({"data": [*entries, {"index": 0, "embedding": [9, 9]}] if len(entries) > 1 else {"data": 0}})

    async def main() -> None:
        async with bench(tmp_path, answer) as (b, _):
            found = await b.embedder.embed_passages({"a": "1", "b": "2"})
            assert set(found.failed) == {"a"} and direction(found.vectors["b"]) == 2

    run(main())


@pytest.mark.parametrize("status", [400, 413, 422])
def test_texts_that_the_api_refuses_are_found_by_halves(tmp_path: Path, status: int) -> None:
    """11.2: a refused batch is asked again in halves, until the bad texts stand alone."""

    def answer(request: Received) -> Reply:
        bad = [text for text in request.json["input"] if "bad" in text]
        return json_reply({"error": {"message": f"no {bad}"}}, status) if bad else good(request)

    async def main() -> None:
        async with bench(tmp_path, answer) as (b, up):
            texts = {str(n): f"{n} {'bad' if n in (17, 63) else ''}" for n in range(100)}
            found = await b.embedder.embed_passages(texts)
            assert set(found.failed) == {"17", "63"} and len(found.vectors) == 98
            assert all(direction(vector) == int(name) for name, vector in found.vectors.items())
            assert len(up.exchanges) <= 28 and found.retry_after == 0

    run(main())


def test_when_all_texts_are_bad_the_search_ends(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, lambda _: json_reply({}, 400)) as (b, up):
            found = await b.embedder.embed_passages({str(n): "x" for n in range(100)})
            assert len(found.failed) == 100 and len(up.exchanges) <= 41

    run(main())


def test_429_waits_as_long_as_it_says_and_other_faults_longer_each_time(tmp_path: Path) -> None:
    replies = [json_reply({}, 429, [("Retry-After", "7")]), json_reply({}, 503), json_reply({}, 500)]

    async def main() -> None:
        async with bench(tmp_path, [*replies, json_reply({"data": vectors(["5"])})]) as (b, _):
            answer = await b.embedder.embed_passages({"a": "5"})
            assert direction(answer.vectors["a"]) == 5 and b.waits == [7, 4, 6]

    run(main())


def test_after_the_last_attempt_all_its_texts_are_told_and_nobody_asks_on(tmp_path: Path) -> None:
    """BUG of 3.4: after a last 429 the batch yielded nothing, and all later vectors moved."""

    async def main() -> None:
        async with bench(tmp_path, lambda _: json_reply({}, 429, [("Retry-After", "3600")])) as (b, up):
            b.rules = UpstreamRules(concurrency=1)
            answer = await b.embedder.embed_passages({str(n): "x" for n in range(300)})
            assert len(answer.failed) == 300 and answer.retry_after == 3600
            assert len(up.exchanges) == 1 and b.waits == []

    run(main())


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_an_api_that_refuses_us_is_not_asked_for_every_text(tmp_path: Path, status: int) -> None:
    async def main() -> None:
        async with bench(tmp_path, lambda _: json_reply({"error": "secret-key-123"}, status)) as (b, up):
            b.rules = UpstreamRules(concurrency=1)
            answer = await b.embedder.embed_passages({str(n): "x" for n in range(300)})
            assert len(answer.failed) == 300 and answer.retry_after > 0 and len(up.exchanges) == 1
            assert "secret-key-123" not in str(answer.failed)

    run(main())


@pytest.mark.parametrize("reply", [raw_reply(b"<html>"), raw_reply(b'{"data": 5}'), raw_reply(b"[" * 10_000)])
def test_an_answer_that_is_none_fails_its_texts(tmp_path: Path, reply: Reply) -> None:
    async def main() -> None:
        async with bench(tmp_path, lambda _: reply) as (b, _):
            answer = await b.embedder.embed_passages({"a": "1", "b": "2"})
            assert set(answer.failed) == {"a", "b"} and not answer.vectors

    run(main())


def test_empty_texts_are_told_and_not_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, good) as (b, up):
            answer = await b.embedder.embed_passages({"a": " \n", "b": "2"})
            assert set(answer.failed) == {"a"} and set(answer.vectors) == {"b"}
            with pytest.raises(EmbeddingError):
                await b.embedder.embed_query("  ")
            assert len(up.exchanges) == 1

    run(main())


def test_a_question_is_asked_again_after_a_moment_and_does_not_wait_long(tmp_path: Path) -> None:
    replies = [json_reply({}, 500), json_reply({"data": vectors(["5"])}), json_reply({}, 429, [("Retry-After", "30")])]

    async def main() -> None:
        async with bench(tmp_path, replies) as (b, _):
            assert direction(await b.embedder.embed_query("5")) == 5
            with pytest.raises(EmbeddingError) as caught:
                await b.embedder.embed_query("5")
            assert caught.value.retry_after == 30 and b.waits == [0.5]
            assert (b.embedder.activity.queries, b.embedder.activity.failures) == (1, 1)

    run(main())


def test_an_upstream_that_is_not_there_is_an_error_and_never_another_model(tmp_path: Path) -> None:
    """8.5: a fault at run time means words only; no vectors of another model come in their place."""

    async def main() -> None:
        b = Bench("http://127.0.0.1:9", tmp_path)
        await b.client.start()
        with pytest.raises(EmbeddingError):
            await b.embedder.embed_query("a")
        answer = await b.embedder.embed_passages({"a": "a"})
        assert set(answer.failed) == {"a"} and answer.retry_after > 0
        assert b.embedder.signature.dimension == 0
        await b.client.stop()

    run(main())


def test_limits_in_a_minute_make_passages_wait_and_questions_give_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, good) as (b, _):
            b.limits, b.rules = Limits(minute_requests=2), UpstreamRules(concurrency=1)
            answer = await b.embedder.embed_passages({str(n): str(n) for n in range(500)})
            assert len(answer.vectors) == 500 and b.waits == [60, 60]
            await b.embedder.embed_query("1")
            with pytest.raises(EmbeddingError) as caught:
                await b.embedder.embed_query("1")
            assert caught.value.retry_after == 60

    run(main())


def test_when_the_day_is_used_up_the_rest_waits_for_midnight(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, good) as (b, up):
            b.limits, b.rules = Limits(day_requests=2), UpstreamRules(concurrency=1)
            answer = await b.embedder.embed_passages({str(n): str(n) for n in range(500)})
            assert len(answer.vectors) == 200 and len(answer.failed) == 300 and len(up.exchanges) == 2
            assert answer.retry_after == 86_400 - 1_764_000_000 % 86_400
            assert (tmp_path / USE_FILE).exists()

    run(main())


def test_another_dimension_than_announced_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with bench(tmp_path, good) as (b, _):
            b.rules = UpstreamRules(dimension=3072)
            with caplog.at_level(logging.WARNING):
                for _ in range(2):
                    await b.embedder.embed_query("1")
            assert caplog.text.count("VECTORDB_DIMENSION is 3072") == 1
            assert "secret-key-123" not in caplog.text

    run(main())


def test_cancelling_ends_the_requests_that_are_on_their_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, [Reply(())]) as (b, up):
            task = asyncio.create_task(b.embedder.embed_passages({"a": "1"}))
            await up.arrived()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())


def test_the_demo_model_makes_vectors_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with serve(create_demo()) as url:
            b = Bench(url, tmp_path)
            await b.client.start()
            texts = {"near": "昨天讨论了向量数据库", "far": "红烧肉 rezept"}
            answer = await b.embedder.embed_passages(texts)
            question = await b.embedder.embed_query("讨论向量数据库")
            assert float(question @ answer.vectors["near"]) > float(question @ answer.vectors["far"])
            await b.client.stop()

    run(main())
