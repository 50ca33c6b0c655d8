"""Pictures and other binary data have no place in queues and logs: a digest stands for them (P20)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace

from app.extend import ApprovalAsked, CallFinished, Event, Json, PromptExpanded, TaskFinished, ToolCall, ToolResult

MAX_DEPTH = 64
"""What is nested deeper in a result is left out."""

_LONG = 1024
_DATA_URI = re.compile(r"data:[^,\s]{0,200};base64,")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]++={0,2}")
_INSIDE = re.compile(rf"(data:[^,\s]{{0,200}};base64,)([A-Za-z0-9+/_-]{{{_LONG},}}+={{0,2}})")


def digested(event: Event) -> Event:
    """The event with a digest in place of every base64 text; the very same event when it holds none."""
    if isinstance(event, TaskFinished) and event.result is not None:
        shown = _digested_result(event.result)
        return event if shown is event.result else replace(event, result=shown)
    if isinstance(event, PromptExpanded):
        sent = tuple(without_base64(message) for message in event.sent)
        return replace(event, before=without_base64(event.before), sent=sent)
    if isinstance(event, ApprovalAsked):
        asked = _digested_call(event.call)
        return event if asked is event.call else replace(event, call=asked)
    if not isinstance(event, CallFinished):
        return event
    call, result = _digested_call(event.call), _digested_result(event.result)
    return event if call is event.call and result is event.result else replace(event, call=call, result=result)


def _digested_call(call: ToolCall) -> ToolCall:
    arguments = without_base64(call.arguments, MAX_DEPTH)
    texts = without_base64(call.texts, MAX_DEPTH)
    same = arguments is call.arguments and texts is call.texts
    return call if same else replace(call, arguments=arguments, texts=texts)


def _digested_result(result: ToolResult) -> ToolResult:
    structured = without_base64(result.structured, MAX_DEPTH)
    parts = None if result.parts is None else without_base64(list(result.parts), MAX_DEPTH)
    message = without_base64(result.message, MAX_DEPTH)
    changed_parts = parts is not None and any(
        new is not old for new, old in zip(parts, result.parts or (), strict=True)
    )
    if structured is result.structured and not changed_parts and message is result.message:
        return result
    return replace(result, structured=structured, parts=None if parts is None else tuple(parts), message=message)


def without_base64(value: Json, depth: int = MAX_DEPTH) -> Json:
    """``value`` with a digest in place of every base64 text; the very same value when nothing in it had to go."""
    if isinstance(value, str):
        return _digest(value)
    if not isinstance(value, Mapping | list):
        return value
    if depth == 0:
        return "…"
    if isinstance(value, list):
        items = [without_base64(item, depth - 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    fields = {name: without_base64(item, depth - 1) for name, item in value.items()}
    return fields if any(fields[name] is not value[name] for name in fields) else value


def _digest(text: str) -> str:
    if len(text) < _LONG and not text.startswith("data:"):
        return text
    uri = _DATA_URI.match(text)
    if uri is not None:
        return uri[0] + _shown(text)
    if _BASE64.fullmatch(text) is not None:
        return _shown(text)
    return _INSIDE.sub(lambda found: found[1] + _shown(found[2]), text) if ";base64," in text else text


def _shown(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"[sha256 {digest}, {len(text)} characters]"
