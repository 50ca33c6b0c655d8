"""Asks placeholder sources for their data: each once for a whole conversation, all together, with a deadline."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.errors import PromptLimitError, both
from app.extend import SYSTEM_NOTE, Filling, Found, Json, PatientSource, Piece, PlaceholderSource, PromptContext
from app.prompt.limits import Budget, PromptLimits
from app.prompt.pieces import NOT_DATA, PromptText

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Slot:
    """A text of the conversation on its way: message ``message``, its content part ``part`` (None: string content).

    ``role`` is the folded role; ``noted``: it is a user text that began as a client's note (D7).
    """

    message: int
    part: int | None
    role: str
    text: PromptText
    noted: bool = False

    def roles(self) -> frozenset[str]:
        """What sources may know it by."""
        return frozenset((self.role, SYSTEM_NOTE)) if self.noted else frozenset((self.role,))


async def put_in_data(
    slots: Sequence[Slot],
    sources: Sequence[PlaceholderSource],
    context: PromptContext,
    budget: Budget,
    limits: PromptLimits,
) -> list[Json]:
    """Find the placeholders of all sources, resolve them together, then put the texts into ``slots``.

    The answer are the parts that the sources attach to the last user message.

    A source that fails or is late is logged and leaves its placeholders as they were written. Raises
    PromptLimitError when one source has too many distinct placeholders or its texts are too long.
    """
    texts = [(slot.roles(), text) for slot in slots for text in slot.text.texts(NOT_DATA)]
    asked: list[tuple[PlaceholderSource, re.Pattern[str], dict[str, Found]]] = []
    for source in sources:
        pattern = source.pattern  # asked for once: plugins may come and go while their sources are at work
        items = _found(texts, source, pattern, limits)
        if items:
            asked.append((source, pattern, items))
    attached: list[Json] = []
    if not asked:
        return attached
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_resolved(source, tuple(items.values()), context, _seconds(source, limits)))
            for source, _, items in asked
        ]
    for (source, pattern, items), task in zip(asked, tasks, strict=True):
        fillings = _fillings(source, items.values(), task.result())
        if fillings:
            _insert(slots, source, pattern, fillings, budget)
            attached.extend(part for filling in fillings.values() for part in filling.attached)
    return attached


def _found(
    texts: Sequence[tuple[frozenset[str], str]],
    source: PlaceholderSource,
    pattern: re.Pattern[str],
    limits: PromptLimits,
) -> dict[str, Found]:
    """The placeholders in ``texts``, each with its roles, that the source is asked for."""
    found: dict[str, Found] = {}
    roles = source.roles
    for known_by, text in texts:
        if roles.isdisjoint(known_by):
            continue
        for match in pattern.finditer(text):
            if not match[0]:
                continue
            found.setdefault(match[0], Found(match[0], tuple(group or "" for group in match.groups())))
            if len(found) > limits.found:
                raise PromptLimitError(
                    both(
                        f"一次请求中不同的 '{source.name}' 占位符超过 {limits.found} 个",
                        f"more than {limits.found} different '{source.name}' placeholders in one request",
                    )
                )
    return found


def _seconds(source: PlaceholderSource, limits: PromptLimits) -> float:
    """The time of a source: its own where it says so, else that of all."""
    return source.seconds if isinstance(source, PatientSource) else limits.source_seconds


async def _resolved(
    source: PlaceholderSource, found: Sequence[Found], context: PromptContext, seconds: float
) -> Mapping[str, str | Filling]:
    try:
        async with asyncio.timeout(seconds):
            return dict(await source.resolve(found, context))
    except TimeoutError:
        log.warning("placeholder source '%s' gave no answer within %g s", source.name, seconds)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Something inside the source was cancelled, not this request.
        log.warning("placeholder source '%s' was cancelled from inside", source.name)
    except Exception:  # plugin boundary: a broken source must not end the turn
        log.exception("placeholder source '%s' failed", source.name)
    return {}


@dataclass(frozen=True, slots=True)
class _Fill:
    """What goes to the first place of a placeholder, what to further ones, and what comes with it."""

    first: tuple[Piece, ...]
    again: tuple[Piece, ...]
    attached: tuple[Json, ...] = ()


def _fillings(
    source: PlaceholderSource, found: Iterable[Found], texts: Mapping[str, str | Filling]
) -> dict[str, _Fill]:
    fillings: dict[str, _Fill] = {}
    for item in found:
        text = texts.get(item.text)
        label = item.groups[0] if item.groups else ""
        if isinstance(text, Filling):
            name = _label(source, text.label or label)
            first, again = (Piece(part, name, source.trust) for part in (text.text, text.again))
            fillings[item.text] = _Fill((first,), (again,), text.attached)
        elif isinstance(text, str):
            pieces = (Piece(text, _label(source, label), source.trust),)
            fillings[item.text] = _Fill(pieces, pieces)
        elif text is not None:
            log.warning("placeholder source '%s' gave no text for %s", source.name, item.text)
    return fillings


def _label(source: PlaceholderSource, label: str) -> str:
    return f"{source.name}:{label}" if label else source.name


def _insert(
    slots: Sequence[Slot],
    source: PlaceholderSource,
    pattern: re.Pattern[str],
    fillings: Mapping[str, _Fill],
    budget: Budget,
) -> None:
    seen: set[str] = set()

    def resolve(match: re.Match[str]) -> tuple[Piece, ...] | None:
        filling = fillings.get(match[0])
        if filling is None:
            return None
        pieces = filling.again if match[0] in seen else filling.first
        seen.add(match[0])
        budget.spend(pieces[0].source, pieces)
        return pieces

    roles = source.roles
    for slot in slots:
        if not roles.isdisjoint(slot.roles()):
            slot.text = slot.text.replace(pattern, resolve, NOT_DATA)
