"""The tool socket's wire without I/O: frames, error codes, names, and the dialect of schemas (mcp.md section 1).

A frame is one JSON object ``{"type", "data"?, "requestId"?}`` (WS-1). Everything here raises ``ToolSocketError`` with
the code that the client is told.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from app.errors import VcpError, both
from app.protocol.blanks import trimmed

Json = Any
Frame = dict[str, Json]


class ErrorCode(StrEnum):
    """Codes that the server sends; an owner may send others of its own, which are passed on."""

    INVALID_NAME = "INVALID_NAME"
    INVALID_SCHEMA = "INVALID_SCHEMA"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    TOOL_EXISTS = "TOOL_EXISTS"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    TOOL_EXECUTION_FAILED = "TOOL_EXECUTION_FAILED"
    SERVER_ERROR = "SERVER_ERROR"


# Types of frames; those up to CANCEL_EXECUTION come from clients, EXECUTE_TOOL, COMPLETED and FAILED go both ways.
REGISTER_TOOL = "register_tool"
UNREGISTER_TOOL = "unregister_tool"
LIST_TOOLS = "list_tools"
EXECUTE_TOOL = "execute_tool"
COMPLETED = "tool_execution_completed"
FAILED = "tool_execution_failed"
CANCEL_EXECUTION = "cancel_execution"
REGISTERED = "tool_registered"
UNREGISTERED = "tool_unregistered"
TOOLS_LIST = "tools_list"
STARTED = "tool_execution_started"
CANCELLED = "execution_cancelled"
ERROR = "error"

NAME_CHARS = 128
"""Longest name of a tool (WS-4)."""

_NO_NAME = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control characters, invisible marks, halves of characters and ends of lines."""

ID_CHARS = 1024
"""Longest ``executionId``; a longer ``requestId`` is not echoed."""

CODE_CHARS = 64
TYPE_CHARS = 64

MAX_TIMEOUT_SECONDS = 600.0
"""Longest time that a tool may ask for by ``timeoutMs`` (WS-11)."""

SCHEMA_DEPTH = 32
SCHEMA_NODES = 2000

TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
REFUSED_KEYWORDS = ("$ref", "anyOf")


class ToolSocketError(VcpError):
    """What a client is told of its frame."""

    status = 400

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


# ---------------------------------------------------------------------- what stands in frames


def request_id(frame: Mapping[str, Json]) -> str | int | float | None:
    """What is echoed in the direct reply (WS-1); None when the frame names nothing that can be."""
    value = frame.get("requestId")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return None if isinstance(value, str) and len(value) > ID_CHARS else value


def frame_data(frame: Mapping[str, Json]) -> Mapping[str, Json]:
    """The frame's ``data``; INVALID_ARGUMENTS when it is no object."""
    data = frame.get("data")
    if not isinstance(data, Mapping):
        raise ToolSocketError(ErrorCode.INVALID_ARGUMENTS, both("data 必须是对象", "data must be an object"))
    return data


def execution_id(data: Mapping[str, Json]) -> str:
    """The run that is meant; INVALID_ARGUMENTS."""
    value = data.get("executionId")
    if not isinstance(value, str) or not value or len(value) > ID_CHARS:
        raise ToolSocketError(
            ErrorCode.INVALID_ARGUMENTS,
            both(
                f"executionId 必须是非空字符串，最长 {ID_CHARS} 个字符",
                f"executionId must be a non-empty string of at most {ID_CHARS} characters",
            ),
        )
    return value


def tool_name(data: Mapping[str, Json]) -> str:
    """The name of a tool, trimmed as JavaScript does it; INVALID_NAME by WS-4.

    Marks that nobody sees are no part of names: with one a tool would look like another one to models and people.
    """
    value = data.get("name")
    name = trimmed(value) if isinstance(value, str) else ""
    if not 0 < len(name) <= NAME_CHARS or any(unicodedata.category(mark) in _NO_NAME for mark in name):
        raise ToolSocketError(
            ErrorCode.INVALID_NAME,
            both(
                f"name 必须是 1 到 {NAME_CHARS} 个字符的字符串，不含控制字符和不可见字符",
                f"name must be a string of 1 to {NAME_CHARS} characters, none of them a control or invisible one",
            ),
        )
    return name


def arguments(data: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments of a call, ``{}`` without any; INVALID_ARGUMENTS, also for null and arrays (WS-8)."""
    value = data.get("args", {})
    if not isinstance(value, dict):
        raise ToolSocketError(ErrorCode.INVALID_ARGUMENTS, both("args 必须是对象", "args must be an object"))
    return value


def timeout_seconds(data: Mapping[str, Json]) -> float | None:
    """A tool's own limit by ``timeoutMs``, at most ten minutes; None without one; INVALID_ARGUMENTS (WS-11)."""
    value = data.get("timeoutMs")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ToolSocketError(
            ErrorCode.INVALID_ARGUMENTS, both("timeoutMs 必须是正数（毫秒）", "timeoutMs must be a positive number")
        )
    return min(value / 1000, MAX_TIMEOUT_SECONDS)


def owners_error(data: Mapping[str, Json], max_chars: int) -> tuple[str, str]:
    """Code and message of a failure that an owner tells, in our shape whatever it sent (WS-10)."""
    error = data.get("error")
    code: Json = None
    message = error
    if isinstance(error, Mapping):
        code, message = error.get("code"), error.get("message")
    if not isinstance(code, str) or not 0 < len(code) <= CODE_CHARS or not code.isprintable():
        code = ErrorCode.TOOL_EXECUTION_FAILED
    if not isinstance(message, str) or not message.strip():
        message = both("工具执行失败，未说明原因", "the tool failed and did not say why")
    return str(code), message[:max_chars]


# ---------------------------------------------------------------------- frames of the server


def error_frame(error: ToolSocketError, frame: Mapping[str, Json]) -> Frame:
    """The private answer to a frame that cannot be served (WS-2)."""
    told = {"code": str(error.code), "message": error.message}
    data: Frame = dict(told)
    about = frame.get("data")
    if isinstance(about, Mapping):
        for field in ("executionId", "name"):
            value = about.get(field)
            if isinstance(value, str) and len(value) <= ID_CHARS:
                data[field] = value
    return {"type": ERROR, "error": told, "data": data}


def failed_frame(execution: str, code: str, message: str) -> Frame:
    """A run ended without a result."""
    return {"type": FAILED, "data": {"executionId": execution, "error": {"code": code, "message": message}}}


def run_frame(kind: str, execution: str, **fields: Json) -> Frame:
    """A frame about a run; ``fields`` follow its id."""
    return {"type": kind, "data": {"executionId": execution, **fields}}


def unregistered_frame(name: str, reason: str) -> Frame:
    """A tool is gone: ``unregistered`` or ``disconnected``."""
    return {"type": UNREGISTERED, "data": {"name": name, "reason": reason}}


def no_object() -> ToolSocketError:
    """The text was no frame (WS-1)."""
    return ToolSocketError(
        ErrorCode.SERVER_ERROR,
        both("消息必须是带有字符串 type 的 JSON 对象", "a message must be a JSON object with a string type"),
    )


def unknown_type(kind: str) -> ToolSocketError:
    """Nobody understands frames of this type (WS-3)."""
    shown = kind[:TYPE_CHARS]
    return ToolSocketError(ErrorCode.SERVER_ERROR, both(f"未知的消息类型：{shown}", f"unknown message type: {shown}"))


def no_such_run() -> ToolSocketError:
    """No run has this id, or it is none of this client's business (WS-10, WS-14)."""
    return ToolSocketError(
        ErrorCode.TOOL_NOT_FOUND,
        both(
            "没有此 executionId 的运行，或它不属于此连接",
            "no run has this executionId, or it does not belong to this connection",
        ),
    )


def no_such_tool(name: str) -> ToolSocketError:
    """No tool has this name, or it is another client's (WS-6, WS-8)."""
    return ToolSocketError(
        ErrorCode.TOOL_NOT_FOUND, both(f'没有名为 "{name}" 的工具', f'no tool is called "{name}" here')
    )


# ---------------------------------------------------------------------- the dialect of schemas (1.2)


def checked_schema(data: Mapping[str, Json]) -> dict[str, Json]:
    """The JSON Schema that says of values what the dialect's schema in ``data`` says.

    Each node has one ``type``; ``null`` for a keyword is none, unknown keywords are ignored and not in the answer.
    INVALID_SCHEMA names the place of the first fault.
    """
    schema = data.get("schema")
    if not isinstance(schema, Mapping):
        raise ToolSocketError(ErrorCode.INVALID_SCHEMA, both("schema 必须是对象", "schema must be an object"))
    return _Nodes().checked(schema, "schema", 1)


class _Nodes:
    """Goes through one schema; counts its nodes."""

    def __init__(self) -> None:
        self._count = 0

    def checked(self, node: Json, where: str, depth: int) -> dict[str, Json]:
        self._count += 1
        if depth > SCHEMA_DEPTH or self._count > SCHEMA_NODES:
            raise _fault(
                where[:200],
                f"过深或过大：最多 {SCHEMA_DEPTH} 层、{SCHEMA_NODES} 个节点",
                f"is too deep or too large; at most {SCHEMA_DEPTH} levels and {SCHEMA_NODES} nodes",
            )
        if not isinstance(node, Mapping):
            raise _fault(where, "必须是对象", "must be an object")
        for keyword in REFUSED_KEYWORDS:
            if keyword in node:
                raise _fault(where, f"不支持 {keyword}", f"must not use {keyword}")
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in TYPES:
            raise _fault(f"{where}.type", f"必须是 {_TYPES} 之一", f"must be one of {_TYPES}")
        plain: dict[str, Json] = {"type": kind}
        if kind == "object":
            self._object(node, where, depth, plain)
        elif kind == "array":
            self._array(node, where, depth, plain)
        elif kind == "string":
            _counts(node, where, "minLength", "maxLength", plain)
            for keyword in ("pattern", "format"):
                if (value := node.get(keyword)) is not None:
                    if not isinstance(value, str):
                        raise _fault(f"{where}.{keyword}", "必须是字符串", "must be a string")
                    if keyword == "pattern" or value in ("email", "uri"):
                        plain[keyword] = value
        elif kind in ("number", "integer"):
            for keyword in ("minimum", "maximum", "multipleOf"):
                if (number := _number(node, where, keyword)) is not None:
                    plain[keyword] = number
            if plain.get("multipleOf", 1) <= 0:
                raise _fault(f"{where}.multipleOf", "必须大于 0", "must be greater than 0")
        if (choices := node.get("enum")) is not None:
            if not isinstance(choices, list):
                raise _fault(f"{where}.enum", "必须是数组", "must be an array")
            plain["enum"] = choices
        return plain

    def _object(self, node: Mapping[str, Json], where: str, depth: int, plain: dict[str, Json]) -> None:
        properties = node.get("properties")
        if properties is None:
            properties = {}
        if not isinstance(properties, Mapping):
            raise _fault(f"{where}.properties", "必须是对象", "must be an object")
        plain["properties"] = {
            name: self.checked(value, f"{where}.properties.{name[:NAME_CHARS]}", depth + 1)
            for name, value in properties.items()
        }
        required = node.get("required")
        if required is None:
            return
        if not isinstance(required, list):
            raise _fault(f"{where}.required", "必须是数组", "must be an array")
        for name in required:
            if not isinstance(name, str) or name not in properties:
                raise _fault(
                    f"{where}.required",
                    "中的每一项都必须出现在 properties 中",
                    "must hold only names that are in properties",
                )
        plain["required"] = list(dict.fromkeys(required))

    def _array(self, node: Mapping[str, Json], where: str, depth: int, plain: dict[str, Json]) -> None:
        if node.get("items") is None:
            raise _fault(f"{where}.items", "不可缺少", "is missing")
        plain["items"] = self.checked(node["items"], f"{where}.items", depth + 1)
        _counts(node, where, "minItems", "maxItems", plain)
        unique = node.get("uniqueItems")
        if unique is None:
            return
        if not isinstance(unique, bool):
            raise _fault(f"{where}.uniqueItems", "必须是布尔值", "must be a boolean")
        plain["uniqueItems"] = unique


_TYPES = ", ".join(sorted(TYPES))


def _number(node: Mapping[str, Json], where: str, keyword: str) -> int | float | None:
    value = node.get(keyword)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _fault(f"{where}.{keyword}", "必须是数字", "must be a number")
    return value


def _counts(node: Mapping[str, Json], where: str, least: str, most: str, plain: dict[str, Json]) -> None:
    """Limits of a length. Any number will do; JSON Schema wants whole ones that are not negative."""
    low, high = _number(node, where, least), _number(node, where, most)
    if low is not None and low > 0:
        plain[least] = math.ceil(low)
    if high is not None:
        if high < 0:
            plain[least] = 1  # with the next line: nothing is short enough
        plain[most] = max(0, math.floor(high))


def _fault(where: str, chinese: str, english: str) -> ToolSocketError:
    return ToolSocketError(ErrorCode.INVALID_SCHEMA, both(f"{where} {chinese}", f"{where} {english}"))
