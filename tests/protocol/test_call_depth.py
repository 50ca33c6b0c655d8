"""The depth of chains of chats and tools."""

from __future__ import annotations

import pytest

from app.errors import BadRequestError, CallDepthError
from app.protocol.call_depth import check_depth, read_depth


@pytest.mark.parametrize(
    ("values", "depth"),
    [
        ([], 0),
        (["0"], 0),
        (["3"], 3),
        ([" 07 "], 7),
        (["1", "4", "2"], 4),
        (["0" * 5000 + "2"], 2),
        (["999999999"], 999_999_999),
        (["1" * 5000], 10**9),  # more digits than Python would read
    ],
)
def test_the_header_is_a_whole_number_and_the_largest_of_several_counts(values: list[str], depth: int) -> None:
    assert read_depth(values) == depth


@pytest.mark.parametrize("value", ["", " ", "-1", "+1", "1.0", "x", "0x1", "１", "1,2", "²", "1\0"])
def test_what_is_no_whole_number_is_refused_since_such_a_chain_could_not_be_counted(value: str) -> None:
    with pytest.raises(BadRequestError, match="X-VCP-Call-Depth"):
        read_depth(["1", value])


def test_a_chain_may_be_as_deep_as_the_limit_and_no_deeper() -> None:
    check_depth(0, 0)
    check_depth(5, 5)
    with pytest.raises(CallDepthError, match=r"5 levels deep \(MaxCallDepth\)") as caught:
        check_depth(6, 5)
    assert caught.value.status == 400
