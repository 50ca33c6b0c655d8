"""One log line for what an operator wants to see of turns and calls; never a prompt, an argument or a key."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from app.extend import (
    ApprovalAsked,
    ApprovalSettled,
    BackgroundResult,
    CallFinished,
    CallFound,
    DiaryWritten,
    Event,
    Outcome,
    TaskFinished,
    TaskScheduled,
    TurnFinished,
)

log = logging.getLogger("app.turns")

MAX_NAME = 100
MAX_TEXT = 300
"""Most characters of a name and of a message in a line; both come from clients, models and plugins."""


def _line(text: str, limit: int) -> str:
    """``text`` as a part of one line, so that nobody can write lines of his own into the log."""
    if len(text) <= limit and text.isprintable() and " " not in text:  # as most names are
        return text
    flat = " ".join(text[: 2 * limit].split())
    shown = flat if flat.isprintable() else "".join(mark if mark.isprintable() else "?" for mark in flat)
    return shown if len(shown) <= limit and len(text) <= 2 * limit else shown[:limit] + "…"


LOGGED = (
    ApprovalAsked,
    ApprovalSettled,
    BackgroundResult,
    CallFound,
    CallFinished,
    DiaryWritten,
    TurnFinished,
    TaskScheduled,
    TaskFinished,
)
"""The kinds of events that may get a line."""


MASKED_CHARS = 10_000
"""Of a message: enough that no secret is cut where the line ends, and not all that a hostile tool can write."""


def log_event(event: Event, clean: Callable[[str], str] = str) -> None:
    """Write the event's line, if it is one of those that get one.

    ``clean`` takes secrets out of messages: tools and model APIs may repeat any in their errors.
    """

    def said(text: str) -> str:
        return _line(clean(text[:MASKED_CHARS]), MAX_TEXT)

    match event:
        case CallFound() if event.skipped_why:
            log.info("turn %s: call of %s not run: %s", event.turn_id, _line(event.tool, MAX_NAME), event.skipped_why)
        case CallFinished():
            level = logging.INFO if event.outcome is not Outcome.ERROR else logging.WARNING
            kind = event.result.error_kind
            log.log(
                level,
                "call %s of %s by %s: %s%s, waited %.3f s, ran %.3f s",
                event.call.id,
                _line(event.call.tool, MAX_NAME),
                event.context.door,
                event.outcome,
                f" ({kind.value}: {said(event.result.message)})" if kind else "",
                event.waited,
                event.ran,
            )
        case ApprovalAsked():
            log.info(
                "call %s of %s by %s waits %.0f s for approval, as %s",
                event.call.id,
                _line(event.call.tool, MAX_NAME),
                event.context.door.value,
                event.seconds,
                event.request_id,
            )
        case ApprovalSettled():
            word = {True: "approved", False: "rejected", None: "not decided"}[event.approved]
            by, reason = _line(event.by, MAX_TEXT), said(event.reason)
            log.info(
                "%s of %s: %s%s%s",
                event.request_id,
                _line(event.tool, MAX_NAME),
                word,
                f" by {by}" if by else "",
                f": {reason}" if reason else "",
            )
        case BackgroundResult():
            log.info("task %s of %s: a result came", _line(event.task_id, MAX_NAME), _line(event.plugin, MAX_NAME))
        case DiaryWritten():
            log.info("turn %s: diary of %s written to %s", event.turn_id, _line(event.maid, MAX_NAME), event.file_path)
        case TurnFinished():
            log.info(
                "turn %s of %s%s: %s after %d rounds and %d calls%s",
                event.turn_id,
                _line(event.model, MAX_NAME),
                f" from {event.client_ip}" if event.client_ip else "",
                event.outcome.value,
                event.rounds,
                event.calls,
                f": {said(event.error)}" if event.error else "",
            )
        case TaskScheduled():
            log.info("%s is due at %s", _task(event), _moment(event.due))
        case TaskFinished():
            log.log(
                logging.WARNING if event.error else logging.INFO,
                "%s, due at %s: %s",
                _task(event),
                _moment(event.due),
                said(event.error) if event.error else "success",
            )
        case _:
            pass


def _task(event: TaskScheduled | TaskFinished) -> str:
    return f"task {_line(event.task_id, MAX_NAME)} of {_line(event.tool, MAX_NAME) or 'no tool'}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
