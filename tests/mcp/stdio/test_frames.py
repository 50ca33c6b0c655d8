"""What a line says (MCP-4 … MCP-7)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mcp.stdio.batches import joined
from app.mcp.stdio.frames import (
    MAX_DEPTH,
    Answer,
    Fault,
    Notification,
    Request,
    Unusable,
    depth,
    encoded,
    parsed,
    read,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=6,
)
SMALL = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just({}) | st.just([])
MEMBERS = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON | st.just("2.0")
)


@given(st.binary())
def test_no_line_raises(line: bytes) -> None:
    """P94."""
    value = parsed(line)
    message = value if isinstance(value, Fault) else read(value)
    assert not isinstance(message, Fault) or message.code in (-32700, -32600, -32602)


@given(SMALL | MEMBERS)
def test_every_value_is_one_kind_of_message(value: Any) -> None:
    message = read(value)
    assert isinstance(message, Request | Notification | Answer | Fault | Unusable)
    if isinstance(message, Request):
        assert isinstance(message.id, str | int)
        assert not isinstance(message.id, bool)
        assert isinstance(message.method, str)
    if isinstance(message, Fault) and isinstance(value, dict):
        assert "method" in value or not {"result", "error"} & value.keys()  # no answer is ever answered


@given(JSON)
def test_what_is_written_is_read_again_and_is_one_line(value: Any) -> None:
    """STD-22."""
    line = encoded(value)
    assert b"\n" not in line
    assert parsed(line) == value


def test_what_no_quick_writer_can_write_is_written_all_the_same() -> None:
    value = {"large": 2**100, "half": "\ud800", "zwei": "é"}
    assert json.loads(encoded(value)) == value
    with pytest.raises(ValueError, match="JSON compliant"):
        encoded({"large": 2**100, "no number": math.nan})


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1])
def test_the_depth_of_a_line_is_limited(levels: int) -> None:
    value = parsed(b'{"a":[' * (levels // 2) + b"[" * (levels % 2) + b"]" * (levels % 2) + b"]}" * (levels // 2))
    assert isinstance(value, Fault) == (levels > MAX_DEPTH)
    if not isinstance(value, Fault):
        assert depth(value) == levels


def test_of_two_names_the_last_counts() -> None:
    assert parsed(b'{"id":1,"id":2}') == {"id": 2}


def test_faults_never_repeat_what_the_line_holds() -> None:
    """STD-46."""
    for line in (b'{"secret": ', b"\xff secret", b"secret"):
        fault = parsed(line)
        assert isinstance(fault, Fault)
        assert "secret" not in fault.message


def test_an_array_of_answers_is_made_to_fit_by_its_longest() -> None:
    """STD-28: as few as possible become errors."""
    answers = [(number, encoded({"id": number, "result": "x" * size})) for number, size in enumerate((10, 5000, 600))]
    fitted = json.loads(joined(answers, 1200))
    assert ["error" in one for one in fitted] == [False, True, False]
    assert [one["id"] for one in fitted] == [0, 1, 2]
