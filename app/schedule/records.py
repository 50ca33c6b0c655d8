"""What came of scheduled calls, for people: lists, one record, deletion (spec 7.2). All of it blocks on the disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from app.config.small_file import read_small
from app.errors import NotFoundError, both
from app.protocol.json_text import pretty_json
from app.schedule.folder import MAX_RESULT_BYTES, SUFFIX, TaskFolder
from app.schedule.task import read_fields

LISTED_BYTES = 256 * 1024
"""Of a longer record a list shows the name alone."""

SHOWN_CHARS = 60_000


@dataclass(frozen=True, slots=True)
class Record:
    """A task that has ended. ``changed`` in seconds since the epoch; what the file does not say is empty."""

    name: str
    changed: float
    failed: bool
    tool: str = ""
    requestor: str = ""
    scheduled: str = ""
    reason: str = ""


def records(folder: TaskFolder, start: int, count: int) -> tuple[int, list[Record]]:
    """How many tasks have ended, and ``count`` of them from ``start`` on, the last ones first. Raises OSError."""
    found = {name: (changed, folder.results) for name, changed in _listed(folder.results)}
    failed = set()
    for name, changed in _listed(folder.failed):
        failed.add(name)
        found.setdefault(name, (changed, folder.failed))
    newest = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))[start : start + count]
    return len(found), [_record(place, name, changed, name in failed) for name, (changed, place) in newest]


def record_text(folder: TaskFolder, name: str) -> str:
    """What is kept of a task, at most ``SHOWN_CHARS`` characters. Raises NotFoundError, OSError."""
    for place in (folder.results, folder.failed):
        try:
            data = read_small(_path(place, name), MAX_RESULT_BYTES + 1)
        except FileNotFoundError:
            continue
        try:
            text = pretty_json(read_fields(data))
        except ValueError:
            text = data.decode("utf-8", "replace")
        return text[:SHOWN_CHARS] + ("…" if len(text) > SHOWN_CHARS else "")
    raise _no_record(name)


def delete_record(folder: TaskFolder, name: str) -> None:
    """Remove what is kept of a task that has ended. Raises NotFoundError, OSError."""
    gone = False
    for place in (folder.results, folder.failed):
        path = _path(place, name)
        gone = gone or path.is_file()
        path.unlink(missing_ok=True)
    if not gone:
        raise _no_record(name)


def is_file_stem(name: str) -> bool:
    """Whether a request's name can be that of a task's file, in its folder and nowhere else (B3)."""
    plain = not set(name) & {"/", "\\", "\0"} and not name.startswith(".")
    return plain and 0 < len(name.encode("utf-8", "surrogateescape")) <= 250


def _no_record(name: str) -> NotFoundError:
    return NotFoundError(both(f"没有任务 {name[:80]!r} 的记录", f"there is no record of a task {name[:80]!r}"))


def _path(place: Path, name: str) -> Path:
    if not is_file_stem(name):
        raise _no_record(name)
    return place / (name + SUFFIX)


def _listed(place: Path) -> list[tuple[str, float]]:
    try:
        with os.scandir(place) as entries:
            named = [entry for entry in entries if entry.name.endswith(SUFFIX) and not entry.name.startswith(".")]
            files = [entry for entry in named if entry.is_file(follow_symlinks=False)]
            return [(entry.name.removesuffix(SUFFIX), entry.stat(follow_symlinks=False).st_mtime) for entry in files]
    except FileNotFoundError:
        return []


def _record(place: Path, name: str, changed: float, failed: bool) -> Record:
    try:
        data = read_small(place / (name + SUFFIX), LISTED_BYTES + 1)
        fields = read_fields(data) if len(data) <= LISTED_BYTES else {}
    except (OSError, ValueError) as error:
        return Record(name, changed, failed, reason=str(error))
    call, failure = fields.get("tool_call"), fields.get("failure")
    tool = fields.get("tool_name") or (call.get("tool_name") if isinstance(call, dict) else "")
    reason = failure.get("reason") if isinstance(failure, dict) else ""
    return Record(
        name,
        changed,
        failed or fields.get("status") == "error",
        _text(tool),
        _text(fields.get("requestor")),
        _text(fields.get("scheduledLocalTime")),
        _text(reason),
    )


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""
