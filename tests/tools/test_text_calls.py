"""From a block in text to a call."""

from __future__ import annotations

import pytest

from app.protocol.tool_blocks import parse_block
from app.tools.text_calls import call_from_block


@pytest.mark.parametrize(
    ("wanted", "arguments"),
    [(True, {"a": "1", "maid": "N"}), (False, {"a": "1", "maid": "N", "Tool-Password": "77"})],
)
def test_the_password_is_an_argument_only_while_none_is_wanted(wanted: bool, arguments: dict[str, str]) -> None:
    block = parse_block(
        "tool_name:「始」T「末」 a:「始」1「末」 maid:「始」N「末」"
        " Tool-Password:「始」77「末」 archery:「始」no_reply「末」"
    )
    assert block is not None
    call = call_from_block(block, "c1", password_wanted=wanted)
    assert (call.id, call.tool, call.archery, call.password, call.maid) == ("c1", "T", True, "77", "N")
    assert dict(call.arguments) == arguments
    assert dict(call.texts) == arguments
