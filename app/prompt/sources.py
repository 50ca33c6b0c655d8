"""Asks placeholder sources for their data: each once for a whole conversation, all together, with a deadline."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.errors import PromptLimitError, both
from app.extend import Found, Piece, PlaceholderSource, PromptContext
from app.prompt.limits import Budget, PromptLimits
from app.prompt.pieces import NOT_DATA, PromptText

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Slot:
    """A text of the conversation on its way: message ``message``, its content part ``part`` (None: string content).

    ``role`` is the folded role.
    """

    message: int
    part: int | None
    role: str
    text: PromptText


async def put_in_data(
    slots: Sequence[Slot],
    sources: Sequence[PlaceholderSource],
    context: PromptContext,
    budget: Budget,
    limits: PromptLimits,
) -> None:
    """Find the placeholders of all sources, resolve them together, then put the texts into ``slots``.

    A source that fails or is late is logged and leaves its placeholders as they were written. Raises
    PromptLimitError when one source has too many distinct placeholders or its texts are too long.
    """
    texts = [(slot.role, text) for slot in slots for text in slot.text.texts(NOT_DATA)]
    asked: list[tuple[PlaceholderSource, re.Pattern[str], dict[str, Found]]] = []
    for source in sources:
        pattern = source.pattern  # asked for once: plugins may come and go while their sources are at work
        items = _found(texts, source, pattern, limits)
        if items:
            asked.append((source, pattern, items))
    if not asked:
        return
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_resolved(source, tuple(items.values()), context, limits.source_seconds))
            for source, _, items in asked
        ]
    for (source, pattern, items), task in zip(asked, tasks, strict=True):
        pieces = _pieces(source, items.values(), task.result())
        if pieces:
            _insert(slots, source, pattern, pieces, budget)


def _found(
    texts: Sequence[tuple[str, str]], source: PlaceholderSource, pattern: re.Pattern[str], limits: PromptLimits
) -> dict[str, Found]:
    """The placeholders in ``texts``, each with its role, that the source is asked for."""
    found: dict[str, Found] = {}
    roles = source.roles
    for role, text in texts:
        if role not in roles:
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


async def _resolved(
    source: PlaceholderSource, found: Sequence[Found], context: PromptContext, seconds: float
) -> Mapping[str, str]:
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


def _pieces(
    source: PlaceholderSource, found: Iterable[Found], texts: Mapping[str, str]
) -> dict[str, tuple[Piece, ...]]:
    pieces: dict[str, tuple[Piece, ...]] = {}
    for item in found:
        text = texts.get(item.text)
        if isinstance(text, str):
            label = f"{source.name}:{item.groups[0]}" if item.groups and item.groups[0] else source.name
            pieces[item.text] = (Piece(text, label, source.trust),)
        elif text is not None:
            log.warning("placeholder source '%s' gave no text for %s", source.name, item.text)
    return pieces


def _insert(
    slots: Sequence[Slot],
    source: PlaceholderSource,
    pattern: re.Pattern[str],
    texts: Mapping[str, tuple[Piece, ...]],
    budget: Budget,
) -> None:
    def resolve(match: re.Match[str]) -> tuple[Piece, ...] | None:
        pieces = texts.get(match[0])
        if pieces is not None:
            budget.spend(pieces[0].source, pieces)
        return pieces

    for slot in slots:
        if slot.role in source.roles:
            slot.text = slot.text.replace(pattern, resolve, NOT_DATA)
