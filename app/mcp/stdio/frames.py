"""What one line says: the rules of JSON-RPC that hold for every revision (mcp.md MCP-4 … MCP-7). Pure.

Of names that an object has twice the last counts, as in all JSON readers of the server; NaN, Infinity, numbers that
are too large for a float and texts that are nested too deeply are no JSON here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import orjson

from app.errors import both
from app.extend import Json

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_DEPTH = 128
"""Lists and objects inside each other; whatever handles a message later may step down once for each."""

NOTIFICATION_PREFIX = "notifications/"

RequestId: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Request:
    """A message that wants an answer."""

    id: RequestId
    method: str
    params: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that gets no answer (STD-23)."""

    method: str
    params: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client says to a question of ours: ``result``, or else ``error``."""

    id: RequestId
    result: Mapping[str, Json] | None
    error: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class Fault:
    """A message that is refused: the error to answer with; ``id`` is None where it cannot be read."""

    code: int
    message: str
    id: RequestId | None = None


@dataclass(frozen=True, slots=True)
class Unusable:
    """A message that nobody may answer, for log lines: ``why`` never repeats what it holds."""

    why: str


Message: TypeAlias = Request | Notification | Answer | Fault | Unusable


def no_json(why: str) -> Fault:
    """The fault of a line that is no JSON text (STD-17, STD-21)."""
    return Fault(PARSE_ERROR, f"{both('不是合法的 JSON', 'this line is no JSON')}: {why}")


def parsed(line: bytes) -> Json | Fault:
    """The JSON value of a line; a Fault when there is none. Never raises."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return no_json(both("不是 UTF-8", "it is not UTF-8"))
    try:
        value: Json = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        return _too_deep()
    except json.JSONDecodeError as error:
        return no_json(both(f"第 {error.pos + 1} 个字符处", f"at character {error.pos + 1}"))
    except ValueError:
        return no_json(both("数字过大", "a number is too large"))
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        return _too_deep()
    return value


def depth(value: Json) -> int:
    """How many lists and objects are inside each other."""
    level, found = [value], 0
    while level := [item for item in level if isinstance(item, list | dict)]:
        found += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return found


def read(value: Json) -> Message:
    """What one value of a line, or of a batch, is as a message."""
    if not isinstance(value, dict):
        return _invalid(both("消息不是对象", "a message is an object"))
    if "method" not in value:
        return _answer(value)
    named = readable_id(value)
    if value.get("jsonrpc") != "2.0":
        return _invalid(both("jsonrpc 必须是 '2.0'", "jsonrpc has to be '2.0'"), named)
    method = value["method"]
    if not isinstance(method, str):
        return _invalid(both("method 必须是字符串", "method has to be a string"), named)
    params = value.get("params")
    fits = params is None or isinstance(params, dict)
    if "id" not in value:
        return Notification(method, params) if fits else Unusable("the params of a notification are no object")
    if named is None:
        return _invalid(both("id 必须是字符串或整数", "id has to be a string or an integer"))
    if method.startswith(NOTIFICATION_PREFIX):
        return _invalid(both("通知不带 id", "a notification has no id"), named)
    if not fits:
        return Fault(INVALID_PARAMS, both("params 必须是对象", "params has to be an object"), named)
    return Request(named, method, params)


def readable_id(value: Mapping[str, Json]) -> RequestId | None:
    """The id of a message where it is one: a string or an integer, never a truth value (STD-25)."""
    found = value.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def encoded(value: Json) -> bytes:
    """A frame without its newline; what is inside never holds one (STD-22).

    Raises ValueError for values that JSON has no words for.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # integers of more than 64 bits and halves of characters, which Python writes
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def error_object(fault: Fault) -> dict[str, Json]:
    """The answer that refuses a message."""
    return {"jsonrpc": "2.0", "id": fault.id, "error": {"code": fault.code, "message": fault.message}}


def _answer(value: Mapping[str, Json]) -> Message:
    """A message without a method: an answer, or nothing at all. What looks like an answer is never answered."""
    named = readable_id(value)
    if "result" not in value and "error" not in value:
        return _invalid(both("缺少 method", "the method is missing"), named)
    result, error = value.get("result"), value.get("error")
    if value.get("jsonrpc") != "2.0" or named is None:
        return Unusable("an answer without jsonrpc or id")
    if isinstance(error, dict) and "result" not in value:
        code, message = error.get("code"), error.get("message")
        if isinstance(code, int) and not isinstance(code, bool) and isinstance(message, str):
            return Answer(named, None, error)
    elif isinstance(result, dict) and "error" not in value:
        return Answer(named, result, None)
    return Unusable("an answer that is none")


def _invalid(message: str, named: RequestId | None = None) -> Fault:
    return Fault(INVALID_REQUEST, f"{both('无效请求', 'invalid request')}: {message}", named)


def _too_deep() -> Fault:
    return no_json(both(f"嵌套超过 {MAX_DEPTH} 层", f"nested more than {MAX_DEPTH} deep"))


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number
