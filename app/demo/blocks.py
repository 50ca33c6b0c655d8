"""What a model writes when it wants something: tool blocks and legacy diary blocks (spec 4.1, 4.11).

The literals are written out here a second time on purpose. The demo model and the scripted upstream stand on the other
side of the wire: sharing the server's own constants would hide a wrong one from every test.
"""

from __future__ import annotations

import re

TOOL_START = "<<<[TOOL_REQUEST]>>>"
TOOL_END = "<<<[END_TOOL_REQUEST]>>>"
VALUE_START = "「始」"
VALUE_END = "「末」"
DIARY_START = "<<<DailyNoteStart>>>"
DIARY_END = "<<<DailyNoteEnd>>>"

_ACTIVE = re.compile(r"<(?=<<|/?think)|「(?=[始末])", re.IGNORECASE)
_HARMLESS = {"<": "‹", "「": "『"}


def tool_block(tool: str, /, **fields: str) -> str:
    """One tool block as a model writes it; the fields keep their order and are written as given."""
    pairs = [("tool_name", tool), *fields.items()]
    lines = ",\n".join(f"{key}:{VALUE_START}{value}{VALUE_END}" for key, value in pairs)
    return f"{TOOL_START}\n{lines}\n{TOOL_END}"


def diary_block(maid: str, date: str, content: str) -> str:
    """One legacy diary block (spec 4.11)."""
    return f"{DIARY_START}\nMaid: {maid}\nDate: {date}\nContent: {content}\n{DIARY_END}"


def quoted(text: str, limit: int) -> str:
    """Other people's text, safe to repeat: cut at ``limit`` characters, markers and think tags made harmless.

    A model that repeats a block makes a call (decision D79), and the demo promises to call only by its rules.
    """
    cut = text if len(text) <= limit else text[:limit] + "…"
    return _ACTIVE.sub(lambda found: _HARMLESS[found[0]], cut)
