"""From a tool block in text to a call: what every text door does the same way."""

from __future__ import annotations

from app.extend import ToolCall
from app.protocol.tool_blocks import ToolBlock


def call_from_block(block: ToolBlock, call_id: str, *, password_wanted: bool) -> ToolCall:
    """The call that a block asks for.

    While no password is wanted, ``tool_password`` is an argument like any other and is put back (spec 4.2).
    """
    arguments = dict(block.arguments)
    if not password_wanted and block.password is not None and block.password_key is not None:
        arguments[block.password_key] = block.password
    return ToolCall(
        id=call_id,
        tool=block.tool,
        arguments=arguments,
        texts=arguments,
        archery=block.archery,
        password=block.password,
        maid=block.maid,
    )
