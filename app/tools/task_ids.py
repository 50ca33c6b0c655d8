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
_INNER = ("data", "details", "task")


@dataclass(frozen=True, slots=True)
class TaskIds:
    """``named`` are the tasks of this call for sure; ``possible`` may be ids of something else."""

    named: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()


def task_ids(plugin: str, answer: Mapping[str, Json], structured: Json) -> TaskIds:
    """The ids in an answer; ``structured`` is its ``result`` as JSON, also where the plugin wrote it as text."""
    shown = {found[1]: None for found in _placeholders(answer) if found[0] == plugin}
    if shown:
        return TaskIds(tuple(shown)[:TASKS])
    holders = [holder for holder in (structured, answer) if isinstance(holder, Mapping)]
    holders += [inner for holder in tuple(holders) for name in _INNER if isinstance(inner := holder.get(name), Mapping)]
    for wanted in _NAMES:
        for holder in holders:
            for name, value in holder.items():
                if fold(name) == wanted and (task := _as_id(value)) is not None:
                    return TaskIds((task,))
    possible = dict.fromkeys(task for holder in holders if (task := _as_id(holder.get("id"))) is not None)
    return TaskIds((), tuple(possible))


def _placeholders(answer: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    left = TEXT_CHARS
    for text in _texts(answer):
        if MARK in text:  # the search for the whole is a hundred times slower
            for found in PLACEHOLDER.finditer(text[: max(0, left)]):
                yield found[1], found[2]
        left -= len(text)


def _texts(value: Json) -> Iterator[str]:
    waiting = [value]
    for _ in range(VALUES):
        if not waiting:
            return
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one[:VALUES])


def _as_id(value: Json) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and TASK_ID.fullmatch(value) else None
