"""Diary blocks in a reply (spec 4.11; memory.md 1.5): each is stored through the DailyNoteWrite tool."""

from __future__ import annotations

from app.extend import CallContext, CallTool, DiaryWritten, Door, EventSink, ToolCall
from app.protocol.diary import DiaryBlock

WRITER = "DailyNoteWrite"

_SAVED_TO = "Diary saved to "


async def write_diary(
    block: DiaryBlock, call_id: str, context: CallContext, call_tool: CallTool, events: EventSink
) -> None:
    """Store one block and publish ``DiaryWritten``; a failure is in the call's own event and log line."""
    assert context.door is Door.DIARY_BLOCK
    arguments = {"maidName": block.maid, "dateString": block.date, "contentText": block.content}
    result = await call_tool(ToolCall(id=call_id, tool=WRITER, arguments=arguments, texts=arguments), context)
    if not result.ok:
        return
    value = result.structured
    said = value.get("message") if isinstance(value, dict) else None
    message = said if isinstance(said, str) else result.message
    path = message.partition(_SAVED_TO)[2].partition("\n")[0]
    events.publish(DiaryWritten(context.turn_id, block.maid, block.date, path, message))
