"""What a plugin printed, read as a result (spec 4.6, 5.6; B26, B27, P38-P42, P49).

Strict first: all of stdout is one JSON object. Otherwise the last complete object whose ``status`` is ``success`` or
``error`` counts, wherever it stands between log lines. The search is one pass of a small push-down automaton, so output
made of opening braces costs no more than its length.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from app.extend import ErrorKind, Json, ToolResult
from app.plugins.objects import last_object
from app.protocol.json_text import compact_json, strict_json
from app.protocol.markers import unspecified_plugin_error
from app.protocol.tool_values import clean, content_parts, without_colours

QUOTED_STDOUT_CHARS = 200
STDERR_TAIL_CHARS = 2000
_TRIM = "\ufeff \t\n\r\v\f\x00\u00a0\u3000\u2028\u2029"


@dataclass(frozen=True, slots=True)
class Answer:
    """The JSON object that a plugin answered with; ``status`` is ``success`` or ``error``."""

    fields: Mapping[str, Json]

    @property
    def success(self) -> bool:
        """True when the plugin reports success."""
        return bool(self.fields["status"] == "success")


def decode(data: bytes | bytearray) -> str:
    """Output as text: UTF-8, wrong bytes replaced."""
    return data.decode("utf-8", "replace")


def read_answer(stdout: bytes | bytearray) -> Answer | None:
    """The answer in a plugin's whole standard output, or None when there is none (spec 5.6, B27)."""
    text = decode(stdout).strip(_TRIM)
    if "\x1b" in text:
        text = without_colours(text).strip(_TRIM)
    if not text:
        return None
    fields = _whole(text)
    if fields is None:
        data = text.encode()
        span = last_object(data)
        fields = _whole(decode(data[span[0] : span[1]]) if span is not None else text.rpartition("\n")[2])
    return None if fields is None else Answer(fields)


def read_object(data: bytes | bytearray) -> Answer | None:
    """The answer that is this object and nothing else (D14); None when it cannot be read after all."""
    fields = _whole(decode(data))
    return None if fields is None else Answer(fields)


def _whole(text: str) -> Mapping[str, Json] | None:
    if not text.startswith("{"):
        return None
    try:
        # Raw control characters inside strings are let through: shells print tabs and escape codes into them.
        value = json.loads(text, strict=False, parse_constant=str)
        if value.get("status") not in ("success", "error"):
            return None
        fields: Mapping[str, Json] = clean(value)
    except (ValueError, RecursionError):
        return None
    return fields


def result_of_answer(name: str, answer: Answer, exit_code: int | None, stderr_tail: str) -> ToolResult:
    """The canonical result of an answer; the exit code does not matter once there is one (O9).

    ``structured`` of a failed call holds the plugin's own object, for ``code`` and ``fileUrl`` (spec 5.9).
    """
    fields = answer.fields
    said = fields.get("message")
    message = said if isinstance(said, str) else ""
    if not answer.success:
        text = _text(fields.get("error")) or message or unspecified_plugin_error(name)
        return ToolResult(
            structured=fields,
            error_kind=ErrorKind.PLUGIN,
            message=text,
            exit_code=exit_code,
            stderr_tail=stderr_tail,
        )
    structured = _result_object(fields)
    return ToolResult(
        structured=structured,
        parts=content_parts(structured),
        message=message,
        exit_code=exit_code,
        stderr_tail=stderr_tail,
    )


def _result_object(fields: Mapping[str, Json]) -> Json:
    """The table of spec 4.6, with ``message`` standing in for a missing result (B26)."""
    result = fields.get("result")
    if result is None:
        message = fields.get("message")
        return {} if message is None else {"message": message}
    if isinstance(result, str):
        try:
            result = clean(strict_json(result))
        except (ValueError, RecursionError):
            return {"original_plugin_output": result}
    return result if isinstance(result, dict | list) else {"original_plugin_output": result}


def _text(value: Json) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return compact_json(value)


def bad_output(name: str, stdout: bytes | bytearray, exit_code: int | None, stderr_tail: str) -> ToolResult:
    """The error for a process that ended without an answer (spec 5.6, P40); quotes what it printed."""
    printed = decode(stdout[: QUOTED_STDOUT_CHARS * 8]).strip(_TRIM)
    quoted = without_colours(printed)[:QUOTED_STDOUT_CHARS]
    if exit_code == 0:
        text = (
            f'Plugin "{name}" exited successfully but did not provide a valid initial JSON response. Stdout: {quoted}'
        )
        if stderr_tail:
            text += f" Stderr: {stderr_tail}"
    else:
        text = f'Plugin "{name}" exited with code {_code(exit_code)}. Stdout: {quoted} Stderr: {stderr_tail}'
    return failure(ErrorKind.EXECUTION, text, exit_code=exit_code, stderr_tail=stderr_tail)


def _code(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return str(exit_code)
    try:
        return f"{exit_code} ({signal.Signals(-exit_code).name})"
    except ValueError:
        return str(exit_code)


def stderr_text(data: bytes | bytearray) -> str:
    """The end of standard error for people: no colour codes, trimmed, at most ``STDERR_TAIL_CHARS``."""
    return without_colours(decode(data)).strip(_TRIM)[-STDERR_TAIL_CHARS:]


def failure(kind: ErrorKind, text: str, *, exit_code: int | None = None, stderr_tail: str = "") -> ToolResult:
    """A result for a call that gave no answer."""
    return ToolResult(error_kind=kind, message=text, exit_code=exit_code, stderr_tail=stderr_tail)
