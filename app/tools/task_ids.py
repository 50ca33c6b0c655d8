"""Which tasks the first answer of a background plugin speaks of.

No field is laid down for it; these are the ways in which plugins tell, best first:

1. a placeholder ``{{VCP_ASYNC_RESULT::<this plugin>::<id>}}`` anywhere in its texts, which is what it asks the model to
   repeat;
2. a field ``task_id``, ``request_id`` or ``job_id`` (in any spelling: ``taskId``, ``requestid``) of the answer, of its
   ``result``, or of ``data``, ``details`` or ``task`` in one of them;
3. a field ``id`` in the same places. It may name anything, so it counts as seen but binds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.extend import Json
from app.protocol.arguments import fold
from app.protocol.background_results import MARK, PLACEHOLDER, TASK_ID

VALUES = 10_000
TEXT_CHARS = 1_000_000
TASKS = 64
"""Values and characters that are looked through, and tasks that one answer may name."""

_NAMES = ("taskid", "requestid", "jobid")
_LAST = frozenset("dD_-")
"""What such a name can end with, before it is folded."""

_INNER = ("data", "details", "task")


@dataclass(frozen=True, slots=True)
class TaskIds:
    """``named`` are the tasks of this call for sure; ``possible`` may be ids of something else."""

    named: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()


_NONE = TaskIds()


def task_ids(plugin: str, answer: Mapping[str, Json], structured: Json) -> TaskIds:
    """The ids in an answer; ``structured`` is its ``result`` as JSON, also where the plugin wrote it as text."""
    shown = _shown(plugin, answer)
    if shown:
        return TaskIds(tuple(shown)[:TASKS])
    holders = [answer] if not isinstance(structured, Mapping) else [structured, answer]
    for holder in tuple(holders):
        for inner in _INNER:
            if inner in holder and isinstance(value := holder[inner], Mapping):
                holders.append(value)
    named: dict[str, str] = {}
    possible: dict[str, None] = {}
    for holder in holders:
        for name, value in holder.items():
            if name[-1:] not in _LAST and name.isascii():
                continue  # most names: not worth to be folded
            folded = fold(name)
            if folded in _NAMES and folded not in named and (task := _as_id(value)) is not None:
                named[folded] = task
            elif name == "id" and (task := _as_id(value)) is not None:
                possible[task] = None
    for wanted in _NAMES:
        if wanted in named:
            return TaskIds((named[wanted],))
    return TaskIds((), tuple(possible)) if possible else _NONE


def _shown(plugin: str, answer: Mapping[str, Json]) -> dict[str, None]:
    """The tasks of this plugin that placeholders in the texts of an answer name."""
    found: dict[str, None] = {}
    left = TEXT_CHARS
    waiting: list[Json] = [answer]
    for _ in range(VALUES):
        if not waiting:
            break
        one = waiting.pop()
        if isinstance(one, str):
            if MARK in one:  # the search for the whole is a hundred times slower
                found |= {task: None for name, task in _placeholders(one[: max(0, left)]) if name == plugin}
            left -= len(one)
        elif isinstance(one, Mapping):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one[:VALUES])
    return found


def _placeholders(text: str) -> Iterator[tuple[str, str]]:
    return ((match[1], match[2]) for match in PLACEHOLDER.finditer(text))


def _as_id(value: Json) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and TASK_ID.fullmatch(value) else None
