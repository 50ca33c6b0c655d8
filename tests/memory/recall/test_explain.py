"""``memory explain`` tells all that led to a text, and changes nothing (memory.md 11.29)."""

from __future__ import annotations

import asyncio
from typing import Any

from app.memory.recall.explain import MAX_DECLARATIONS, explained
from tests.memory.recall.playing import Played

ASK = {"role": "user", "content": "上周的天气"}


def explain(memory: Played, *texts: str) -> Any:
    return asyncio.run(explained(memory.recaller, texts, [ASK]))


def test_every_declaration_is_explained(memory: Played) -> None:
    memory.retriever.texts = {"A": ["一", "二"]}
    memory.retriever.values = {"A": 0.2}
    told = explain(memory, "x [[A日记本::Time::Foo]]", "《《A日记本》》 [[VCP元思考]] [[A日记本::Time::Foo]]")
    assert told["question"]["timeRanges"] == [{"first": "2025-11-17", "last": "2025-11-23", "soft": False}]
    plain, gated, chain = told["declarations"]
    assert (plain["outcome"], plain["warnings"], plain["k"]) == ("filled", ["Foo"], 3)
    assert [(hit["path"], hit["parts"], hit["similarity"]) for hit in plain["hits"]] == [
        ("A/1.txt", {"dense": 0.5}, 0.7),
        ("A/2.txt", {"dense": 0.5}, 0.7),
    ]
    assert (gated["outcome"], gated["text"]) == ("gate closed", "")
    assert gated["gate"] == {
        "notebook": "A", "value": 0.2, "cosine": 0.5, "by": "name", "threshold": 0.6, "open": False,
    }  # fmt: skip
    assert chain["chain"]["stages"] == [{"cluster": "前思维簇", "k": 1, "found": 1, "fault": ""}]
    assert told["budget"] == {"perDeclaration": 8000, "perRequest": 24000, "used": 2}


def test_nothing_is_kept_and_nobody_is_told(memory: Played) -> None:
    memory.watched = True
    explain(memory, "[[A日记本]]")
    explain(memory, "[[A日记本]]")
    memory.texts("[[A日记本]]", ASK)
    assert len(memory.retriever.asked) == 3
    assert memory.told == []


def test_many_declarations_are_bounded(memory: Played) -> None:
    told = explain(memory, " ".join(f"[[{number}日记本]]" for number in range(MAX_DECLARATIONS + 5)))
    assert (len(told["declarations"]), told["leftOut"]) == (MAX_DECLARATIONS, 5)
