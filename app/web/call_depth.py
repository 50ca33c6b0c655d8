"""The depth of a request in a chain of chats and tools, as its header tells it."""

from __future__ import annotations

from starlette.datastructures import Headers

from app.config.settings import Settings
from app.protocol.call_depth import CALL_DEPTH_HEADER, check_depth, read_depth


def call_depth(headers: Headers, settings: Settings) -> int:
    """The depth of a request; ``CallDepthError`` beyond ``MaxCallDepth``, ``BadRequestError`` when it is no number."""
    values = headers.getlist(CALL_DEPTH_HEADER)
    if not values:
        return 0
    depth = read_depth(values)
    check_depth(depth, settings.max_call_depth)
    return depth
