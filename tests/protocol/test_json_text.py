"""JSON as text: what it looks like, and which words and numbers are none."""

from __future__ import annotations

import pytest

from app.protocol.json_text import compact_json, pretty_json, strict_json


def test_json_is_written_with_its_characters_and_with_or_without_spaces() -> None:
    assert compact_json({"名": ["é", 1, None]}) == '{"名":["é",1,null]}'
    assert pretty_json({"名": [1]}) == '{\n  "名": [\n    1\n  ]\n}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_without_a_word_in_json_are_refused_where_that_matters(number: float) -> None:
    assert compact_json([number])
    with pytest.raises(ValueError):
        compact_json([number], strict=True)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "", "{oops"])
def test_what_javascript_would_not_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        strict_json(text)


def test_other_json_is_read() -> None:
    assert strict_json(' {"a": [1, 1.5, "NaN", null, true]} ') == {"a": [1, 1.5, "NaN", None, True]}
