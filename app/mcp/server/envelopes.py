"""What a JSON-RPC message must be before anybody looks into it (mcp.md MCP-4). Pure, knows nothing of the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import both
from app.extend import Json


@dataclass(frozen=True, slots=True)
class EnvelopeFault:
    """Why a message is no request (-32600); ``id`` is what it is answered under, None when that cannot be read."""

    id: str | int | None
    reason: str


def envelope_fault(message: Json) -> EnvelopeFault | None:
    """What is wrong with the frame of a message, None for a sound one."""
    if not isinstance(message, Mapping):
        return EnvelopeFault(None, both("消息应为一个 JSON 对象", "a message is one JSON object"))
    given = message.get("id")
    readable = given if isinstance(given, str) or (isinstance(given, int) and not isinstance(given, bool)) else None
    if message.get("jsonrpc") != "2.0":
        return EnvelopeFault(readable, both('jsonrpc 必须是 "2.0"', 'jsonrpc must be "2.0"'))
    # An error without an id answers a message whose id nobody could read.
    unreadable = "error" in message and given is None and "method" not in message
    if "id" in message and readable is None and not unreadable:
        return EnvelopeFault(None, both("id 必须是字符串或整数", "id must be a string or a whole number"))
    if "method" not in message:
        if "result" in message or "error" in message:
            return None
        return EnvelopeFault(readable, both("既无 method 也无 result", "neither a method nor a result"))
    method = message["method"]
    if not isinstance(method, str):
        return EnvelopeFault(readable, both("method 必须是字符串", "method must be a string"))
    if "id" in message and method.startswith("notifications/"):
        return EnvelopeFault(readable, both("通知不带 id", "a notification has no id"))
    if "params" in message and not isinstance(message["params"], Mapping):
        return EnvelopeFault(readable, both("params 必须是对象", "params must be an object"))
    return None
