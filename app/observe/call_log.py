"""One log line for what an operator wants to see of turns and calls; never a prompt, an argument or a key."""

from __future__ import annotations

import logging

from app.extend import CallFinished, CallFound, DiaryWritten, Event, Outcome, TurnFinished, TurnStarted

log = logging.getLogger("app.turns")


def log_event(event: Event) -> None:
    """Write the event's line, if it is one of those that get one."""
    match event:
        case TurnStarted():
            log.info("turn %s: model %s, stream %s", event.turn_id, event.model, event.stream)
        case CallFound() if event.skipped_why:
            log.info("turn %s: call of %s not run: %s", event.turn_id, event.tool, event.skipped_why)
        case CallFinished():
            level = logging.INFO if event.outcome is not Outcome.ERROR else logging.WARNING
            kind = event.result.error_kind
            log.log(
                level,
                "call %s of %s by %s: %s%s, waited %.3f s, ran %.3f s",
                event.call.id,
                event.call.tool,
                event.context.door.value,
                event.outcome.value,
                f" ({kind.value}: {event.result.message[:300]})" if kind else "",
                event.waited,
                event.ran,
            )
        case DiaryWritten():
            log.info("turn %s: diary of %s written to %s", event.turn_id, event.maid, event.file_path)
        case TurnFinished():
            log.info(
                "turn %s: %s after %d rounds and %d calls%s",
                event.turn_id,
                event.outcome.value,
                event.rounds,
                event.calls,
                f": {event.error}" if event.error else "",
            )
        case _:
            pass
