"""A node's ``tool_result`` as the result of a call (spec 4.6, 6.4)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from app.errors import both
from app.extend import ErrorKind, Json, ToolResult
from app.protocol.json_text import compact_json
from app.protocol.markers import RESULT_PLAIN_OUTPUT, unspecified_plugin_error
from app.protocol.tool_values import clean, content_parts

_KINDS = {"plugin_error": ErrorKind.PLUGIN, "plugin_execution_error": ErrorKind.EXECUTION}
"""Fields of the error objects of spec 4.6, in which the servers behind nodes wrap their texts."""

MAX_ERROR_OBJECT_CHARS = 100_000


def result_of(tool: str, data: Mapping[str, Json]) -> ToolResult:
    """The canonical result: success with the node's ``result`` (a text is not read as JSON), else its error."""
    if data.get("status") != "success":
        return _error(tool, data)
    try:
        value = clean(data.get("result"))
    except (ValueError, RecursionError):
        return ToolResult(
            error_kind=ErrorKind.EXECUTION,
            message=both("节点返回的结果嵌套过深", "the node's result is nested too deep"),
        )
    said = data.get("message")
    message = clean(said) if isinstance(said, str) else ""
    if value is None and message:
        value = {"message": message}  # B26
    if value is not None and not isinstance(value, dict | list):
        value = {RESULT_PLAIN_OUTPUT: value}
    return ToolResult(structured=value, parts=content_parts(value), message=message)


def error_text(tool: str, data: Mapping[str, Json]) -> str:
    """What a node says went wrong."""
    return _error(tool, data).message


def _error(tool: str, data: Mapping[str, Json]) -> ToolResult:
    said = next((value for field in ("error", "message") if (value := data.get(field))), None)
    try:
        error = clean(said)
        fields = error if isinstance(error, dict) else _error_object(error)
        for field, kind in _KINDS.items():
            if isinstance(text := fields.get(field), str) and text:
                return ToolResult(error_kind=kind, message=text)
        text = error if isinstance(error, str) else "" if error is None else compact_json(error)
    except (ValueError, RecursionError):
        text = ""
    return ToolResult(error_kind=ErrorKind.PLUGIN, message=text or unspecified_plugin_error(tool))


def _error_object(error: Json) -> Mapping[str, Json]:
    """The JSON object that an error's text is, as in the failures of spec 4.6, or an empty one."""
    if not isinstance(error, str) or not error.startswith("{") or len(error) > MAX_ERROR_OBJECT_CHARS:
        return {}
    try:
        value = json.loads(error)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
