"""How deep a request stands in a chain of chats and tools that call each other, and the end of such a chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.errors import BadRequestError, CallDepthError, both

CALL_DEPTH_HEADER = "X-VCP-Call-Depth"
"""Header of a request that a tool makes: how many tool calls led to it."""

CALL_DEPTH_VARIABLE = "VCP_CALL_DEPTH"
"""Variable of a plugin's process: what its requests have to send in that header."""

_DIGITS = 9


def environment_depth(environ: Mapping[str, str]) -> int:
    """The depth at which a program stands that was started with this environment; 0 unless a tool started it.

    Raises ``BadRequestError`` for what is no whole number.
    """
    value = environ.get(CALL_DEPTH_VARIABLE, "")
    return read_depth((value,), CALL_DEPTH_VARIABLE) if value else 0


def read_depth(values: Iterable[str], source: str = CALL_DEPTH_HEADER) -> int:
    """The depth that the header's values name; 0 without any, the largest of several.

    Raises ``BadRequestError``, which names the ``source``, for what is no whole number: a chain that cannot be counted
    would never end.
    """
    depth = 0
    for value in values:
        text = value.strip()
        if not (text.isascii() and text.isdecimal()):
            raise BadRequestError(both(f"{source} 必须是非负整数", f"{source} must be a whole number from 0"))
        digits = text.lstrip("0")
        depth = max(depth, int(digits[:_DIGITS] or 0) if len(digits) <= _DIGITS else 10**_DIGITS)
    return depth


def check_depth(depth: int, limit: int) -> None:
    """Raise ``CallDepthError`` when a request stands deeper than ``limit`` (``MaxCallDepth``)."""
    if depth > limit:
        raise CallDepthError(
            both(
                f"对话与工具互相调用的嵌套超过上限 {limit} 层（MaxCallDepth），此请求不再执行；"
                "请检查工具是否在循环调用，或 API_URL 是否指向本服务器自己",
                f"chats and tools have called each other more than {limit} levels deep (MaxCallDepth), this request is "
                "not run; see whether tools call each other in a circle, or API_URL is this server itself",
            )
        )
