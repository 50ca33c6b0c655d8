"""Answers of servers that do not keep to the protocol in small things are mended before the SDK judges them (P86).

The SDK refuses a whole list for one tool without a schema, and a whole result for one part that it does not know.
Pure; no part of the SDK is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from app.errors import both
from app.extend import Json
from app.protocol.json_text import compact_json

MAX_TOOLS = 2_000
"""Most tools of one server (MCP-54)."""

MAX_LISTED = 10 * MAX_TOOLS
"""Of one page; what is behind them is not even looked at."""

MAX_PARTS = 10_000
"""Of one result; how many there are beyond them is told in a text."""

MAX_TOOL_NAME = 128
MAX_TOOL_BYTES = 256 * 1024
"""Longest description with schemas of one tool, as JSON."""

_NO_TOOL_NAME = re.compile("[ 「」]")
_TEXTS = ("title", "description")
_CONTENT = ("text", "image", "audio", "resource", "resource_link")
_STRUCTURED = "structuredContent"


def tool_name_fault(name: Json) -> str:
    """Why no tool can have this name; empty when it can (MCP-55). The protocol advises more than is asked here."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_TOOL_NAME:
        return f"a name has 1 to {MAX_TOOL_NAME} characters"
    if _NO_TOOL_NAME.search(name) or not name.isprintable():
        return "a name has no blanks, corner brackets, control characters or such as nobody sees"
    return ""


def mended_tools(result: Mapping[str, Json], left_out: Callable[[str, str], None]) -> dict[str, Any]:
    """A result of ``tools/list`` that every revision takes; ``left_out(name, why)`` is told of tools that cannot be.

    A tool without a schema gets one that takes every object; fields of a wrong kind and nulls are left out.
    """
    listed = result.get("tools")
    tools: list[dict[str, Any]] = []
    names: set[str] = set()
    for raw in listed[:MAX_LISTED] if isinstance(listed, list) else []:
        tool = raw if isinstance(raw, dict) else {}
        name = tool.get("name")
        why = tool_name_fault(name) or _schema_fault(tool) or ("is there twice" if name in names else "")
        if not why and len(tools) >= MAX_TOOLS:
            why = f"is beyond {MAX_TOOLS} tools"
        kept = {} if why else _mended_tool(tool)
        if not why and len(compact_json(kept)) > MAX_TOOL_BYTES:
            why = f"its description and schemas have more than {MAX_TOOL_BYTES} bytes"
        if why:
            left_out(str(name)[:MAX_TOOL_NAME], why)
            continue
        names.add(str(name))
        tools.append(kept)
    mended = {key: value for key, value in result.items() if value is not None and key != "tools"}
    if not isinstance(mended.get("nextCursor"), str | None):
        del mended["nextCursor"]
    return {**mended, "tools": tools}


def _mended_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    kept: dict[str, Any] = {
        "name": tool["name"],
        "inputSchema": {"type": "object", **schema} | {"type": "object"}
        if isinstance(schema, dict)
        else {"type": "object"},
    }
    kept |= {key: tool[key] for key in _TEXTS if isinstance(tool.get(key), str)}
    output = tool.get("outputSchema")
    if isinstance(output, dict) and output.get("type", "object") == "object":
        kept["outputSchema"] = {"type": "object", **output}
    annotations = tool.get("annotations")
    if isinstance(annotations, dict):
        hints = {
            key: value
            for key, value in annotations.items()
            if isinstance(value, str if key == "title" else bool)  # that is all they may be
        }
        if hints:
            kept["annotations"] = hints
    return kept


def _schema_fault(tool: Mapping[str, Any]) -> str:
    schema = tool.get("inputSchema")
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind in (None, "object") or (isinstance(kind, list) and "object" in kind):
        return ""
    return "its input schema describes no object"


def with_defaults(method: str, result: Mapping[str, Json]) -> dict[str, Any]:
    """A result of the newest revision with what is taken for said where nothing is (SEP-2322, SEP-2549)."""
    caching = {"ttlMs": 0, "cacheScope": "private"} if method == "tools/list" else {}
    return {"resultType": "complete", **caching, **result}


def mended_result(result: Mapping[str, Json], *, legacy: bool) -> dict[str, Any]:
    """A result of ``tools/call`` that every revision takes: nulls are left out, unknown parts become texts.

    In a ``legacy`` revision structured content is an object; anything else is told as text.
    """
    mended = {key: value for key, value in result.items() if value is not None or key == _STRUCTURED}
    given = mended.get("content", [])
    parts = given if isinstance(given, list) else [given]
    content = [_mended_part(part) for part in parts[:MAX_PARTS]]
    if (more := len(parts) - MAX_PARTS) > 0:
        content.append({"type": "text", "text": both(f"……另有 {more} 部分", f"… {more} further parts")})
    if _STRUCTURED in mended and legacy and not isinstance(mended[_STRUCTURED], dict):
        structured = mended.pop(_STRUCTURED)
        if structured is not None and not content:
            content = [{"type": "text", "text": compact_json(structured)}]
    if not isinstance(mended.get("isError", False), bool):
        mended["isError"] = mended["isError"] not in (0, "", "false")
    return {**mended, "content": content}


def _mended_part(part: Json) -> dict[str, Any]:
    if isinstance(part, dict) and part.get("type") in _CONTENT:
        return {key: value for key, value in part.items() if value is not None}
    return {"type": "text", "text": part if isinstance(part, str) else compact_json(part)}
