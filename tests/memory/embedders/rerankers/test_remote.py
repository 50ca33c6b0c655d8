"""A rerank service over real HTTP (memory.md 2.8)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from app.demo.script import Received, Reply, json_reply, raw_reply
from app.demo.scripted import ScriptedUpstream
from app.demo.upstream import create_demo
from app.memory.embedders.rerankers.remote import RemoteReranker, RerankService
from app.upstream.side_requests import side_client
from app.web.server import serve
from tests.server import run


def reranked(answer: Callable[[Received], Reply], documents: list[str], **service: Any) -> tuple[Any, list[Received]]:
    found: list[Any] = []

    async def main() -> None:
        async with ScriptedUpstream(answer) as up, side_client(dict) as http:
            fields = {"url": up.base_url, "key": "rerank-key", "model": "r", **service}
            found.append(await RemoteReranker(lambda: RerankService(**fields), http).rerank("问题\ud800", documents))
            found.append(list(up.requests))

    run(main())
    return found[0], found[1]


def by_length(request: Received) -> Reply:
    documents = request.json["documents"]
    results = [{"index": n, "relevance_score": len(text)} for n, text in enumerate(documents)]
    return json_reply({"results": list(reversed(results))})


def test_the_request_is_the_one_that_services_know() -> None:
    scores, requests = reranked(by_length, ["aaa", "b"])
    assert scores == {0: 3, 1: 1}
    (request,) = requests
    assert (request.method, request.path) == ("POST", "/v1/rerank")
    assert request.headers["authorization"] == "Bearer rerank-key"
    assert request.json == {"model": "r", "query": "问题?", "documents": ["aaa", "b"], "top_n": 2}


def test_an_address_with_v1_is_understood() -> None:
    async def main() -> None:
        async with ScriptedUpstream(by_length) as up, side_client(dict) as http:
            service = RerankService(f"{up.base_url}/v1/", "", "r")
            assert await RemoteReranker(lambda: service, http).rerank("q", ["a"]) == {0: 1}
            assert up.requests[0].path == "/v1/rerank" and "authorization" not in up.requests[0].headers

    run(main())


def test_a_failed_batch_keeps_its_documents_without_a_score(caplog: pytest.LogCaptureFixture) -> None:
    """BUG of 2.8: such a batch broke the sort."""

    def answer(request: Received) -> Reply:
        return json_reply({}, 500) if "b" * 40 in request.json["documents"] else by_length(request)

    with caplog.at_level(logging.WARNING):
        scores, requests = reranked(answer, ["a" * 40, "b" * 40, "c" * 40], batch_tokens=16)
    assert scores == {0: 40, 2: 40} and len(requests) == 3
    assert "status 500" in caplog.text and "rerank-key" not in caplog.text


HOSTILE: list[Reply] = [
    raw_reply(b"<html>"),
    raw_reply(b"[]"),
    raw_reply(b'{"results": 5}'),
    raw_reply(b'{"results": [5, null, {"index": 0}]}'),
    raw_reply(b'{"results": [{"index": 7, "relevance_score": 1}, {"index": "0", "relevance_score": 1}]}'),
    raw_reply(b'{"results": [{"index": 0, "relevance_score": "high"}, {"index": 1, "relevance_score": null}]}'),
    raw_reply(b'{"results": [{"index": 0, "relevance_score": NaN}]}'),
    raw_reply(b"x" * 5_000_000),
    json_reply({}, 307, [("Location", "http://127.0.0.1:9/")]),
]


@pytest.mark.parametrize("reply", HOSTILE)
def test_an_answer_that_makes_no_sense_scores_nothing(reply: Reply) -> None:
    assert reranked(lambda _: reply, ["a", "b"])[0] == {}


def test_a_service_that_is_not_there_scores_nothing() -> None:
    assert reranked(by_length, ["a"], url="http://127.0.0.1:9")[0] == {}


def test_a_question_as_long_as_a_batch_leaves_room_for_documents() -> None:
    async def main() -> None:
        async with ScriptedUpstream(by_length) as up, side_client(dict) as http:
            service = RerankService(up.base_url, "", "r", 500)
            assert len(await RemoteReranker(lambda: service, http).rerank("问" * 5000, ["字" * 80] * 3)) == 3
            assert len(up.requests) == 2

    run(main())


def test_the_key_is_not_in_the_service_s_text() -> None:
    assert "rerank-key" not in repr(RerankService("http://x", "rerank-key", "r"))


def test_the_demo_model_reranks_too() -> None:
    async def main() -> None:
        async with serve(create_demo()) as url, httpx.AsyncClient(trust_env=False) as http:
            reranker = RemoteReranker(lambda: RerankService(url, "", "vcp-demo-rerank"), http)
            scores = await reranker.rerank("向量数据库", ["红烧肉", "讨论向量数据库的索引"])
            assert scores[1] > scores[0]

    run(main())
