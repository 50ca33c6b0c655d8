"""A scheduled tool call and its file (spec 7.1)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo

from app.errors import BadRequestError, both
from app.extend import Json
from app.protocol.json_text import pretty_json, strict_json
from app.schedule.times import local_time, parse_time

MAX_ID_BYTES = 128
"""Bytes of a task id in UTF-8; it has to fit into a file name with what is put around it."""

MAX_TASK_BYTES = 32 * 1024 * 1024
"""Bytes of a task file."""

_NOT_ON_WINDOWS = frozenset('<>:"|?*')


@dataclass(frozen=True, slots=True)
class Task:
    """A tool call that is put off until ``due`` (whole seconds since the epoch).

    ``tool`` is empty when the file names none; such a task is reported when it is due and never run. ``interrupted``
    counts the runs that the server did not live to finish.
    """

    id: str
    due: float
    tool: str
    arguments: Mapping[str, Json]
    requestor: str = ""
    interrupted: int = 0


def check_id(text: Json) -> str:
    """The task id, which becomes a file name: one visible component that cannot leave its folder (B3).

    Whole numbers are read as text. Raises BadRequestError.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        text = str(text)
    if (
        isinstance(text, str)
        and text.isprintable()
        and 0 < len(text.encode("utf-8", "replace")) <= MAX_ID_BYTES
        and text == text.strip()
        and not text.startswith(".")
        and not set(text) & {"/", "\\"}
        and not (os.name == "nt" and set(text) & _NOT_ON_WINDOWS)
    ):
        return text
    raise BadRequestError(
        both(
            f"task_id 不可用：不能为空、以点开头、含斜杠或控制字符，且不超过 {MAX_ID_BYTES} 字节",
            f"task_id cannot be used: it must not be empty, begin with a dot or hold slashes or control characters, "
            f"and has at most {MAX_ID_BYTES} bytes",
        )
    )


def read_task(data: bytes, zone: tzinfo) -> Task:
    """The task in a file's content; ValueError says why there is none.

    Fields that we do not know are no fault, a byte-order mark neither. A time without an offset is one in ``zone``.
    """
    fields = read_fields(data)
    task_id = fields.get("taskId")
    if isinstance(task_id, int) and not isinstance(task_id, bool):
        task_id = str(task_id)
    if not isinstance(task_id, str) or not task_id:
        raise ValueError("taskId is missing")
    written = fields.get("scheduledLocalTime")
    if written is None or written == "":
        raise ValueError("scheduledLocalTime is missing")
    try:
        due = parse_time(written, zone)
    except ValueError as error:
        raise ValueError(f"scheduledLocalTime cannot be read: {error}") from None
    tool, arguments = read_call(fields.get("tool_call"))
    requestor, interrupted = fields.get("requestor"), fields.get("interrupted")
    return Task(
        id=task_id,
        due=math.floor(due),
        tool=tool,
        arguments=arguments,
        requestor=requestor if isinstance(requestor, str) else "",
        interrupted=interrupted if isinstance(interrupted, int) and interrupted > 0 else 0,
    )


def read_call(call: Json) -> tuple[str, Mapping[str, Json]]:
    """Tool and arguments of a ``tool_call``; an empty name when it is incomplete. No arguments are an empty object."""
    if not isinstance(call, Mapping):
        return "", {}
    tool, arguments = call.get("tool_name"), call.get("arguments")
    if not isinstance(tool, str) or not tool.strip() or not (arguments is None or isinstance(arguments, Mapping)):
        return "", {}
    return tool.strip(), arguments or {}


def read_fields(data: bytes) -> dict[str, Json]:
    """The JSON object in a file's content; ValueError when there is none."""
    try:
        fields = strict_json(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 from byte {error.start} on") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    return fields


def task_bytes(task: Task, zone: tzinfo) -> bytes:
    """The file of a task; ValueError when the arguments are no JSON."""
    return json_bytes(
        {
            "taskId": task.id,
            "scheduledLocalTime": local_time(task.due, zone),
            "tool_call": {"tool_name": task.tool, "arguments": dict(task.arguments)},
            "requestor": task.requestor,
        }
    )


def json_bytes(value: Json) -> bytes:
    """JSON indented by two spaces; ValueError for what JSON has no words for."""
    try:
        text = pretty_json(value)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error
    try:
        return (text + "\n").encode()
    except UnicodeEncodeError:
        # Half surrogates have no UTF-8; JSON can still write them as escapes.
        return (json.dumps(value, indent=2) + "\n").encode("ascii")
