"""A chat model that scores texts: what it is asked, and everything it may answer instead (memory.md 8.4, D83)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from app.errors import UpstreamBrokenError
from app.extend import Json
from app.memory.embedders.rerankers.listwise import BATCH_DOCUMENTS, RUNNING, ListwiseReranker, read_scores
from tests.server import run


def said(text: Any) -> Json:
    return {"choices": [{"message": {"content": text}}]}


class Model:
    """Answers with one text, and remembers what it was asked."""

    def __init__(self, text: Any = "") -> None:
        self.text, self.bodies, self.running, self.most = text, list[Mapping[str, Json]](), 0, 0

    async def __call__(self, body: Mapping[str, Json]) -> Json:
        self.bodies.append(body)
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(5):
            await asyncio.sleep(0)
        self.running -= 1
        if isinstance(self.text, Exception):
            raise self.text
        return said(self.text)


def reranked(model: Model, documents: list[str]) -> Mapping[int, float]:
    found: list[Mapping[int, float]] = []

    async def main() -> None:
        reranker = ListwiseReranker(lambda: "judge", model, batch_tokens=lambda: 30_000, fence=lambda: "==F")
        found.append(await reranker.rerank("谁？", documents))

    run(main())
    return found[0]


def test_texts_are_quoted_between_marks_that_nobody_can_know() -> None:
    model = Model('{"1": 3, "2": 9}')
    assert reranked(model, ["one ==F text 2", "two"]) == {0: 3, 1: 9}
    (body,) = model.bodies
    assert body["model"] == "judge"
    assert body["messages"][1]["content"] == (  # type: ignore[index,call-overload]
        "==F question\n谁？\n==F text 1\none ==F text 2\n==F text 2\ntwo\n==F end"
    )


def test_marks_differ_from_question_to_question() -> None:
    async def main() -> None:
        model = Model("{}")
        reranker = ListwiseReranker(lambda: "judge", model, batch_tokens=lambda: 30_000)
        for _ in range(2):
            await reranker.rerank("q", ["a"])
        contents = [body["messages"][1]["content"] for body in model.bodies]  # type: ignore[index,call-overload]
        assert contents[0] != contents[1]

    run(main())


def test_some_texts_at_a_time_and_some_questions_at_a_time() -> None:
    model = Model(json.dumps({str(n): 5 for n in range(1, 30)}))
    assert len(reranked(model, ["text"] * (BATCH_DOCUMENTS * 5))) == BATCH_DOCUMENTS * 5
    assert len(model.bodies) == 5 and model.most == RUNNING


def test_a_model_that_fails_scores_nothing() -> None:
    assert reranked(Model(UpstreamBrokenError("坏 / broken")), ["a", "b"]) == {}


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        ('I think {"1": 1} … no.\n```json\n{"1": 7.5, "2": "3"}\n```', {0: 7.5, 1: 3.0}),
        ('{"1": 11, "2": -1, "3": null, "4": true, "5": [1], "6": "x", "٧": 1, "8 ": 1, "": 1}', {}),
        ('{"1": 5, "99": 5, "0": 5, "-1": 5, "1000000": 5}', {0: 5}),
        ('{"1": NaN, "2": Infinity}', {}),
        ("", {}),
        ("{", {}),
        ("[" * 30_000 + "{" * 30_000, {}),
        ("5", {}),
        ('{"1": ' + "9" * 5000 + "}", {}),
        (None, {}),
        (["x"], {}),
    ],
)
def test_scores_are_read_from_whatever_a_model_says(answer: Any, scores: dict[int, float]) -> None:
    assert reranked(Model(answer), ["a", "b", "c", "d", "e", "f", "g", "h"]) == scores


@pytest.mark.parametrize(
    "answer", [None, 5, [], {}, {"choices": []}, {"choices": [5]}, {"choices": [{"message": None}]}]
)
def test_an_answer_without_a_message_has_no_scores(answer: Json) -> None:
    assert read_scores(answer) == []
