"""Names that one note explains and others use (memory.md 11.13: what hangs together)."""

from __future__ import annotations

import pytest

from app.memory.index.words import query_words
from app.memory.ranking.feedback import MOST_WORDS, WEIGHT, bridge_gains, bridging_words

EXPLAINS = "早上下雨。植物园里的温室茶座没有招牌，我们管它叫绿房子。晚饭吃了面。"


def test_new_words_come_from_the_sentence_that_shares_most_with_the_question() -> None:
    found = bridging_words(query_words("植物园温室的茶座谁弹琴"), [EXPLAINS], query_words)
    assert "绿房" in found
    assert not {"下雨", "晚饭", "植物", "温室"} & set(found)


def test_a_sentence_that_shares_a_single_word_gives_none() -> None:
    assert bridging_words(query_words("温室"), [EXPLAINS], query_words) == []
    assert bridging_words([], [EXPLAINS], query_words) == []
    assert bridging_words(query_words("温室茶座"), ["", "。。。"], query_words) == []


def test_an_endless_sentence_gives_a_few_words_only() -> None:
    text = "温室茶座" + "".join(f" word{number}x" for number in range(1000))
    assert len(bridging_words(query_words("温室茶座"), [text], query_words)) <= MOST_WORDS


def test_the_best_gains_most_and_the_sources_nothing() -> None:
    gains = bridge_gains([(1, 9.0), (2, 6.0), (3, 3.0), (4, 0.0)], [1])
    assert gains == {2: pytest.approx(WEIGHT), 3: pytest.approx(WEIGHT / 2)}
    assert bridge_gains([], [1]) == {}
