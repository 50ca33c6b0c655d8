"""Vectors of texts: order, limits, and everything an API can answer in their place."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.demo.script import Reply, json_reply
from app.demo.scripted import ScriptedUpstream
from app.demo.upstream import create_demo
from app.errors import BadRequestError, UpstreamBrokenError, UpstreamStatusError, VcpError
from app.upstream.client import UpstreamClient
from app.upstream.embeddings import TEXTS_LIMIT, Embeddings, read_vectors
from app.upstream.limits import UpstreamLimits
from app.upstream.retry import RetryPolicy
from app.upstream.targets import SingleUpstream
from app.web.server import serve


async def embed(base_url: str, texts: Any, default: str = "vec", model: str | None = None) -> list[list[float]]:
    client = UpstreamClient(SingleUpstream(base_url, "key"), RetryPolicy(1, 1), UpstreamLimits(2, 2, 2), environment={})
    await client.start()
    try:
        return await Embeddings(lambda: client, lambda: default)(texts, model=model)
    finally:
        await client.stop()


def answered(reply: Reply, texts: Any, **options: Any) -> tuple[list[list[float]], list[Any]]:
    async def main() -> tuple[list[list[float]], list[Any]]:
        async with ScriptedUpstream([reply]) as up:
            vectors = await embed(up.base_url, texts, **options)
            return vectors, [(one.request.path, one.request.json) for one in up.exchanges]

    return asyncio.run(main())


def test_vectors_come_in_the_order_of_the_texts_whatever_the_order_of_the_answer() -> None:
    reply = json_reply({"data": [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]})
    vectors, asked = answered(reply, ["a", "\ud800b"], model="other")
    assert vectors == [[1.0, 2.0], [3.0, 4.0]]
    assert asked == [("/v1/embeddings", {"model": "other", "input": ["a", "?b"]})]


def test_without_an_index_the_order_of_the_answer_counts() -> None:
    vectors, _ = answered(json_reply({"data": [{"embedding": [1]}, {"embedding": [2]}]}), ["a", "b"])
    assert vectors == [[1.0], [2.0]]


def test_each_place_of_an_answer_is_judged_alone() -> None:
    """11.2: what is wrong with one text says nothing of the others."""
    entries = [
        {"index": 3, "embedding": [4]},
        {"index": 0, "embedding": [1]},
        {"index": 1, "embedding": [2]},
        {"index": 1, "embedding": [3]},
        {"index": 4, "embedding": [1e999]},
        {"index": 2, "embedding": [10**400]},
        {"index": 9, "embedding": [1]},
        {"index": True, "embedding": [1]},
        {"embedding": [7]},
        5,
    ]
    vectors, faults = read_vectors(json.dumps({"data": entries}).replace("Infinity", "1e999").encode(), 5)
    assert vectors == {0: [1.0], 3: [4.0]}
    assert sorted(faults) == [1, 2, 4]


def test_without_any_index_a_short_answer_belongs_to_nobody() -> None:
    vectors, faults = read_vectors(b'{"data": [{"embedding": [1]}]}', 2)
    assert not vectors and sorted(faults) == [0, 1]


ODD = [
    {},
    {"data": None},
    {"data": []},
    {"data": [{"index": 0, "embedding": "x"}]},
    {"data": [{"index": 0}]},
    {"data": [{"index": 0, "embedding": [None]}]},
    {"data": [5]},
    [],
    {"data": [{"index": 5, "embedding": [1]}]},
    {"data": [{"index": [], "embedding": [1]}]},
]


@pytest.mark.parametrize("body", ODD)
def test_an_answer_without_the_vectors_is_an_error(body: Any) -> None:
    with pytest.raises(UpstreamBrokenError):
        answered(json_reply(body), ["a"])


def test_another_status_is_an_error_with_the_words_of_the_api() -> None:
    with pytest.raises(UpstreamStatusError, match="no such model"):
        answered(json_reply({"error": {"message": "no such model"}}, status=404), ["a"])


@pytest.mark.parametrize(("texts", "default"), [(["a"], ""), (["a"] * (TEXTS_LIMIT + 1), "vec"), ([5], "vec")])
def test_what_cannot_be_asked_is_not_asked(texts: Any, default: str) -> None:
    with pytest.raises(BadRequestError):
        asyncio.run(embed("http://127.0.0.1:9", texts, default))


def test_no_texts_need_no_request() -> None:
    assert asyncio.run(embed("http://127.0.0.1:9", [])) == []


def test_the_demo_model_makes_vectors_too() -> None:
    async def main() -> None:
        async with serve(create_demo()) as url:
            vectors = await embed(url, ["天气", "天气", "other"])
            assert vectors[0] == vectors[1] != vectors[2]

    asyncio.run(main())


def test_an_upstream_that_is_not_there_is_a_vcp_error() -> None:
    with pytest.raises(VcpError):
        asyncio.run(embed("http://127.0.0.1:9", ["a"]))
