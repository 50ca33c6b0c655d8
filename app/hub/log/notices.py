"""What ``vcp_log`` says of a call: its source, and its content as text (spec 4.5, 4.6, 6.2, 7.1; D66). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import both
from app.extend import CallFinished, Door, ErrorKind, Json, TaskFinished, ToolCall, ToolResult
from app.hub.masks import Masks
from app.observe.digests import without_base64
from app.protocol import hub_messages as wire
from app.protocol import markers
from app.protocol.json_text import compact_json, pretty_json
from app.tools.rendering import cut_text, kinds_of_parts, result_object

MAX_NAME_CHARS = 200
"""Longest name of a tool that is told; a model may make up any."""

MAX_NODES = 50_000
"""Values in a result that are looked at one by one; a larger one is told as a text that is cut."""

TASK_RESULT_CHARS = 500
"""How much is told of what a scheduled call gave (7.1)."""

_CHAT = (Door.STREAM, Door.NON_STREAM)


def source(event: CallFinished) -> str:
    """The ``source`` of a call's notice: its door, and how it went (6.2, D66)."""
    door, kind = event.context.door, event.result.error_kind
    if door is Door.SCHEDULE:
        return wire.SCHEDULE_SOURCE + ("" if kind is None else wire.ERROR)
    told = door.value
    if door not in _CHAT:
        return told if kind is None else told + wire.ERROR
    if event.call.archery:
        told += wire.ARCHERY
    elif kind is ErrorKind.UNKNOWN_TOOL:
        return told + wire.NOT_FOUND
    elif is_auth_refusal(event.result):
        return told + wire.AUTH_ERROR
    return told if kind is None else told + wire.ERROR


def is_auth_refusal(result: ToolResult) -> bool:
    """True when a call was refused for its ``tool_password``."""
    return result.error_kind is ErrorKind.REFUSED and result.message == markers.PASSWORD_REFUSED


@dataclass(frozen=True, slots=True)
class Notices:
    """Writes notices. ``masks`` take out secrets; ``max_chars`` is the longest content."""

    masks: Masks
    max_chars: int

    def of_call(self, event: CallFinished, timestamp: str) -> wire.HubMessage:
        """The notice of a call at any door but the schedule."""
        call, result = event.call, event.result
        return wire.vcp_log(_name(call.tool), self._content(call, result, timestamp), source(event), ok=result.ok)

    def of_task(self, event: TaskFinished, timestamp: str) -> wire.HubMessage:
        """The notice of a scheduled call, or of a task that could not be carried out (7.1)."""
        tool = wire.timed_tool(_name(event.tool)) if event.tool else wire.TASK_SCHEDULER
        ok = not event.error
        task = event.task_id[:MAX_NAME_CHARS]
        line = (
            both(f"定时任务 {task} 已执行", f"scheduled task {task} has run")
            if ok
            else both(f"定时任务 {task} 执行失败", f"scheduled task {task} has failed")
        )
        if event.result is None:
            told = self.masks.text(event.error)
        else:
            call = ToolCall(event.task_id, event.tool, {}, maid=event.maid)
            told = compact_json(self._clean(result_object(call, event.result, timestamp)))
        told_by = wire.SCHEDULE_SOURCE + ("" if ok else wire.ERROR)
        return wire.vcp_log(tool, f"{line}\n{told[:TASK_RESULT_CHARS]}", told_by, ok=ok)

    def _content(self, call: ToolCall, result: ToolResult, timestamp: str) -> str:
        """What 6.2 puts into ``content``: JSON, a text, or the words of an error alone."""
        secrets = (call.password,) if call.password else ()
        if result.ok and result.parts is not None:
            return self._cut(self._clean(_first_text(result.parts), *secrets))
        if result.ok and result.structured is None:
            return markers.tool_no_content(_name(call.tool))
        if result.ok:
            return self._pretty(call, result, timestamp, secrets)
        if is_auth_refusal(result):
            return wire.AUTH_REFUSED
        if result.error_kind is ErrorKind.UNKNOWN_TOOL:
            return markers.unknown_tool(_name(call.tool))
        if result.error_kind in (ErrorKind.REFUSED, ErrorKind.LIMIT):
            return self._cut(self.masks.text(result.message, *secrets))
        error = compact_json(self._clean(result_object(call, result, timestamp), *secrets))
        return self._cut(markers.tool_failed(_name(call.tool), error))

    def _pretty(self, call: ToolCall, result: ToolResult, timestamp: str, secrets: tuple[str, ...]) -> str:
        """Always JSON (W9): what is too long for it becomes a text inside a small object."""
        value = result_object(call, result, timestamp)
        if _is_small(value):
            value = self._clean(value, *secrets)
            text = pretty_json(value)
            if len(text) <= self.max_chars:
                return text
        shown = self.masks.text(self._cut(compact_json(value)), *secrets)
        return pretty_json(result_object(call, ToolResult(structured=shown), timestamp))

    def _clean(self, value: Json, *secrets: str) -> Json:
        return self.masks.value(without_base64(value), *secrets)

    def _cut(self, text: str) -> str:
        return cut_text(text, self.max_chars)


def _name(tool: str) -> str:
    return tool if len(tool) <= MAX_NAME_CHARS else tool[:MAX_NAME_CHARS] + "…"


def _is_small(value: Json) -> bool:
    """Whether a value has at most ``MAX_NODES`` values in it; stops to count at the first one more."""
    left = MAX_NODES
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, Mapping | list | tuple):
            continue
        left -= len(item)
        if left < 0:
            return False
        waiting.extend(item.values() if isinstance(item, Mapping) else item)
    return True


def _first_text(parts: Sequence[Mapping[str, Json]]) -> str:
    """The first text of rich content, or what it is of."""
    texts = (part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str))
    return next(texts, None) or kinds_of_parts(parts)
