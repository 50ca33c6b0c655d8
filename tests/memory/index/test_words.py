"""Words of notes and questions (memory.md 9.3, 11.7)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.memory.index.words import (
    MAX_DOCUMENT_WORDS,
    MAX_QUERY_WORDS,
    MAX_WORD_CHARS,
    WORD_MARKS,
    document_words,
    query_words,
)
from tests.growth import grows_in_proportion


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RX-7900", ["rx-7900", "rx", "7900"]),
        ("v1.2.3 C++ node.js", ["v1.2.3", "c++", "node.js", "node", "js"]),
        ("foo_bar.", ["foo_bar", "foo", "bar"]),
        ("２０２５年ＡＢＣ", ["2025", "年", "abc"]),
        ("Running tests, stories", ["run", "test", "story"]),
        ("清华大学", ["清华大学", "清华", "华大", "大学"]),
        ("莱恩主人", ["莱恩", "恩主", "主人"]),
        ("-- ... __ ++", []),
        ("", []),
    ],
)
def test_words_are_whole_and_in_parts(text: str, words: list[str]) -> None:
    assert document_words(text) == words


def test_a_name_that_no_vocabulary_has_is_found_by_its_pairs() -> None:
    assert set(query_words("莱恩")) <= set(document_words("我见到了莱恩主人。"))


def test_questions_have_no_stop_words_and_no_doubles() -> None:
    words = query_words("我们上次讨论的那个 RX-7900 显卡是什么时候买的？显卡")
    assert {"rx-7900", "显卡", "讨论"} <= set(words)
    assert not {"的", "是", "什么", "卡是", "买的", "我们"} & set(words)
    assert len(words) == len(set(words))
    assert query_words("你是谁") == document_words("你是谁")  # nothing else is there to look for
    assert query_words("What did he buy with his money?") == ["buy", "money"]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_every_word_is_one_token_of_the_table(text: str) -> None:
    for word in (*document_words(text), *query_words(text)):
        assert 1 <= len(word) <= MAX_WORD_CHARS
        assert re.fullmatch(rf"[\w{re.escape(WORD_MARKS)}]+", word)


@pytest.mark.parametrize("unit", ["好", "a", "a-", "____", "1."])
def test_endless_texts_have_a_bounded_number_of_words_and_cost_no_more_than_their_length(unit: str) -> None:
    def look(size: int) -> None:
        text = unit * (size // len(unit))
        assert len(document_words(text)) <= MAX_DOCUMENT_WORDS
        assert len(query_words(text)) <= MAX_QUERY_WORDS

    look(1)
    assert grows_in_proportion(look, 18_750)
