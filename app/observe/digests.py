"""Events as they wait in queues: digests stand for pictures and other binary data (P20)."""

from __future__ import annotations

from dataclasses import replace

from app.extend import ApprovalAsked, CallFinished, Event, TaskFinished, ToolCall, ToolResult
from app.protocol.digests import without_base64


def digested(event: Event) -> Event:
    """The event with a digest in place of every base64 text; the very same event when it holds none."""
    if isinstance(event, TaskFinished) and event.result is not None:
        shown = _digested_result(event.result)
        return event if shown is event.result else replace(event, result=shown)
    if isinstance(event, ApprovalAsked):
        asked = _digested_call(event.call)
        return event if asked is event.call else replace(event, call=asked)
    if not isinstance(event, CallFinished):
        return event
    call, result = _digested_call(event.call), _digested_result(event.result)
    return event if call is event.call and result is event.result else replace(event, call=call, result=result)


def _digested_call(call: ToolCall) -> ToolCall:
    arguments = without_base64(call.arguments)
    texts = without_base64(call.texts)
    same = arguments is call.arguments and texts is call.texts
    return call if same else replace(call, arguments=arguments, texts=texts)


def _digested_result(result: ToolResult) -> ToolResult:
    structured = without_base64(result.structured)
    parts = None if result.parts is None else without_base64(list(result.parts))
    message = without_base64(result.message)
    changed_parts = parts is not None and any(
        new is not old for new, old in zip(parts, result.parts or (), strict=True)
    )
    if structured is result.structured and not changed_parts and message is result.message:
        return result
    return replace(result, structured=structured, parts=None if parts is None else tuple(parts), message=message)
