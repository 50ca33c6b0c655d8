"""Renderings of a tool's result: the JSON object (spec 4.6), what a model reads (4.5, 4.13), what people see (4.9)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.extend import CallOutcome, ErrorKind, Json, ToolCall, ToolResult
from app.protocol import markers
from app.protocol.approval_messages import ERROR_REJECTED, ERROR_TIMEOUT
from app.protocol.json_text import compact_json, pretty_json
from app.protocol.secret_texts import masked, masked_text

Profile = Literal["baseline", "head"]
"""Which generation of payload formats is written (decision D16)."""

_CALCULATOR_RESULT = re.compile(re.escape(markers.CALCULATION_START) + "(.*?)" + markers.CALCULATION_END)

Part = dict[str, Json]
"""One content part of a chat message."""


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """How results are put before the model: generation of formats, the most characters of one text part, and whether
    what looks like a secret is masked (``private``).
    """

    profile: Profile = "baseline"
    max_chars: int = 200_000
    private: bool = False


def result_object(call: ToolCall, result: ToolResult, timestamp: str) -> Json:
    """The JSON answer of a call (spec 4.6): result or error, with ``MaidName`` and ``timestamp``.

    A list stays a list and carries neither, as a JavaScript array would print.
    """
    if not result.ok:
        return _stamped(_error_fields(result), call, timestamp)
    value = result.structured
    if isinstance(value, list):
        return value
    return _stamped(
        dict(value) if isinstance(value, Mapping) else {markers.RESULT_PLAIN_OUTPUT: value}, call, timestamp
    )


def _error_fields(result: ToolResult) -> dict[str, Json]:
    if result.error_kind is ErrorKind.PLUGIN:
        told = {"original_plugin_error": result.original_error} if result.original_error else {}
        return {"plugin_error": result.message, **told}
    if result.error_kind is ErrorKind.REJECTED:
        return {"plugin_error": result.message, "error_type": ERROR_REJECTED, "rejected_by_user": True}
    if result.error_kind is ErrorKind.UNANSWERED:
        return {"plugin_execution_error": result.message, "error_type": ERROR_TIMEOUT}
    return {"plugin_execution_error": result.message}


def _stamped(value: dict[str, Json], call: ToolCall, timestamp: str) -> dict[str, Json]:
    if call.maid:
        value[markers.RESULT_MAID_NAME] = call.maid
    value[markers.RESULT_TIMESTAMP] = timestamp
    return value


def model_parts(outcome: CallOutcome, timestamp: str, style: ResultFormat) -> list[Part]:
    """The content parts that tell the model what came of a call (spec 4.5; 4.13 for ``head``)."""
    call, result = outcome.call, without_secrets(outcome).result if style.private else outcome.result
    if result.ok and result.parts is not None:
        return _cut_parts(result.parts, style.max_chars)
    text = (
        _baseline_text(call, result, timestamp) if style.profile == "baseline" else _head_text(call, result, timestamp)
    )
    return [{"type": "text", "text": cut_text(text, style.max_chars)}]


def without_secrets(outcome: CallOutcome) -> CallOutcome:
    """The outcome with a mask in place of what looks like a secret in its result (spec 7.6, ``privacyProtection``)."""
    result = outcome.result
    return replace(
        outcome,
        result=replace(
            result,
            structured=masked(result.structured),
            parts=None if result.parts is None else tuple(_masked_part(part) for part in result.parts),
            message=masked_text(result.message),
            original_error=masked_text(result.original_error),
        ),
    )


def _masked_part(part: Mapping[str, Json]) -> Mapping[str, Json]:
    text = part.get("text")
    return {**part, "text": masked_text(text)} if isinstance(text, str) else part


def _refusal_text(call: ToolCall, result: ToolResult) -> str | None:
    """Texts that stand alone, without the prefix that names the tool."""
    if result.error_kind is ErrorKind.UNKNOWN_TOOL:
        return markers.unknown_tool(call.tool)
    if result.error_kind in (ErrorKind.REFUSED, ErrorKind.LIMIT):
        return result.message
    return None


def _baseline_text(call: ToolCall, result: ToolResult, timestamp: str) -> str:
    alone = _refusal_text(call, result)
    if alone is not None:
        return alone
    value = result_object(call, result, timestamp)
    if not result.ok:
        return markers.tool_result_text(call.tool, markers.tool_failed(call.tool, compact_json(value)))
    if result.structured is None:
        return markers.tool_result_text(call.tool, markers.tool_no_content(call.tool))
    return markers.tool_result_text(call.tool, pretty_json(value))


def _head_text(call: ToolCall, result: ToolResult, timestamp: str) -> str:
    if result.error_kind is ErrorKind.UNKNOWN_TOOL:
        return markers.head_error(markers.head_unknown_tool(call.tool))
    if result.error_kind in (ErrorKind.REFUSED, ErrorKind.LIMIT):
        return markers.head_error(result.message)
    value = result_object(call, result, timestamp)
    if not result.ok:
        return markers.head_error(markers.head_execution_error(compact_json(value)))
    return markers.HEAD_NO_CONTENT if result.structured is None else pretty_json(value)


def payload_content(parts: Sequence[Part], profile: Profile) -> str | list[Part]:
    """The content of the one user message that carries all results of a round (spec 4.4 step 6; 4.13)."""
    if profile == "baseline":
        return list(parts)
    if all(part.get("type") == "text" for part in parts):
        return markers.HEAD_PAYLOAD_MARK + "\n" + compact_json(list(parts))
    return [{"type": "text", "text": markers.HEAD_PAYLOAD_MARK}, *parts]


def visible_text(outcome: CallOutcome, timestamp: str) -> str:
    """What a person is shown of a result (spec 4.9): the first of its texts that there is."""
    call, result = outcome.call, outcome.result
    alone = _refusal_text(call, result)
    if alone is not None:
        return alone
    value = result_object(call, result, timestamp)
    if not result.ok:
        return markers.tool_failed(call.tool, compact_json(value))
    if result.structured is None and result.parts is None:
        return markers.SHOW_VCP_NO_CONTENT
    if result.parts is not None:
        texts = [
            part["text"] for part in result.parts if part.get("type") == "text" and isinstance(part.get("text"), str)
        ]
        if texts:
            return "\n".join(texts)
        return kinds_of_parts(result.parts)
    if isinstance(value, Mapping):
        for key in ("result", "message", markers.RESULT_PLAIN_OUTPUT, "content"):
            text = value.get(key)
            if isinstance(text, str) and text:
                inner = _CALCULATOR_RESULT.search(text) if key == markers.RESULT_PLAIN_OUTPUT else None
                return inner.group(1) if inner else text
        plain = value.get(markers.RESULT_PLAIN_OUTPUT)
        if isinstance(plain, int | float) and plain:
            return compact_json(plain)
    return compact_json(value) if value else markers.SHOW_VCP_NO_CONTENT


def kinds_of_parts(parts: Sequence[Mapping[str, Json]]) -> str:
    """What stands for content parts without any text (4.9)."""
    kinds = ", ".join(sorted({str(part.get("type")) for part in parts}))
    return f"[Rich Content with types: {kinds}]"


def show_vcp_block(outcome: CallOutcome, timestamp: str, profile: Profile) -> str:
    """The block that ``ShowVCP`` puts into the reply (spec 4.9)."""
    return markers.show_vcp_block(
        outcome.call.tool, visible_text(outcome, timestamp), ok=outcome.result.ok, head=profile == "head"
    )


def cut_text(text: str, limit: int) -> str:
    """``text``, or its beginning and a visible note when it is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    chinese = f"结果过长，已截断：共 {len(text)} 字符，保留前 {limit} 字符"
    return f"{text[:limit]}\n[{chinese} / result cut: kept {limit} of {len(text)} characters]"


def _cut_parts(parts: Sequence[Mapping[str, Json]], limit: int) -> list[Part]:
    """The parts with all their text together held to ``limit``; what is not text goes on as it is."""
    cut: list[Part] = []
    left = limit
    for part in parts:
        text = part.get("text")
        if part.get("type") != "text" or not isinstance(text, str):
            cut.append(dict(part))
        elif left >= 0:
            cut.append({**part, "text": cut_text(text, left)})
            left = left - len(text) if len(text) <= left else -1  # after the first cut no text follows
    return cut
