"""Diary blocks in a reply (spec 4.11; memory.md 1.5): each is stored through the DailyNoteWrite tool."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from app.extend import CallContext, CallTool, DiaryWritten, EventSink, ToolCall
from app.protocol.diary import DiaryBlock

log = logging.getLogger(__name__)

WRITER = "DailyNoteWrite"

MAX_BLOCKS = 64
"""Most diary blocks of one reply that are stored; the others are named in the log and stay in the reply."""

_SAVED_TO = "Diary saved to "


async def write_diaries(
    blocks: Sequence[DiaryBlock],
    new_id: Callable[[], str],
    context: CallContext,
    call_tool: CallTool,
    events: EventSink,
) -> None:
    """Store the blocks one after the other, so that a reply full of them takes no places from tools.

    Publishes ``DiaryWritten`` for each; a failure is in the call's own event and log line.
    """
    for block in blocks[:MAX_BLOCKS]:
        arguments = {"maidName": block.maid, "dateString": block.date, "contentText": block.content}
        result = await call_tool(ToolCall(id=new_id(), tool=WRITER, arguments=arguments, texts=arguments), context)
        if not result.ok:
            continue
        value = result.structured
        said = value.get("message") if isinstance(value, dict) else None
        message = said if isinstance(said, str) else result.message
        path = message.partition(_SAVED_TO)[2].partition("\n")[0]
        events.publish(DiaryWritten(context.turn_id, block.maid, block.date, path, message, context.mute.muted))
    if len(blocks) > MAX_BLOCKS:
        log.warning(
            "turn %s: %d diary blocks are over the limit of %d and were not stored",
            context.turn_id,
            len(blocks) - MAX_BLOCKS,
            MAX_BLOCKS,
        )
