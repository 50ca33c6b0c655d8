"""The tag lines of a whole diary folder: which are right, which can be repaired, which are missing (memory.md 1.4)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.errors import VcpError
from app.memory.diaries.files import replace_bytes
from app.memory.diaries.notebooks import walk_notes
from app.memory.diaries.requests import MAX_CONTENT_BYTES
from app.protocol.blanks import BLANKS
from app.protocol.diary import normalise_tags
from app.protocol.diary_tags import find_tag_line, read_tags

_RIGHT = re.compile(r"Tag: [^，：、]*")


class TagState(StrEnum):
    """What is to be said of a note's tag line."""

    VALID = "valid"
    REPAIRABLE = "repairable"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Checked:
    """One note; ``line`` is the right tag line of a repairable one."""

    path: Path
    state: TagState
    line: str = ""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of a note: ``line`` is its new tag line; ``why`` says why it has none."""

    checked: Checked
    line: str = ""
    why: str = ""


def check_tags(text: str) -> tuple[TagState, str]:
    """The state of a note's last line, and the right line for a repairable one.

    Right is exactly ``Tag: `` and tags with one comma and one blank between them. A tag line that is not the last line
    is none, and neither is one without tags.
    """
    last = text.rstrip(BLANKS).rpartition("\n")[2].strip(BLANKS)
    found = find_tag_line(last)
    if found is None or not read_tags(last):
        return TagState.MISSING, ""
    if _RIGHT.fullmatch(last) and all(
        part.startswith(" ") and part[1:2] not in ("", " ") for part in last.split(",")[1:]
    ):
        return TagState.VALID, ""
    return TagState.REPAIRABLE, normalise_tags(found[1])


def check_notes(root: Path, notebook: str = "") -> Iterator[Checked]:
    """All notes of a notebook, or of all of them, folders inside included. Blocks."""
    for path in walk_notes(root, notebook):
        text = _text(path)
        if text is None:
            yield Checked(path, TagState.UNREADABLE)
            continue
        state, line = check_tags(text)
        yield Checked(path, state, line)


def repair(checked: Checked, ask: Callable[[str], str] | None) -> Repaired:
    """Write the right tag line into a note; ``ask`` gives the one of a text that has none, and may raise VcpError.

    The rest of the note stays as it is, byte for byte. A note that changed meanwhile is left alone. Blocks.
    """
    text = _text(checked.path)
    if text is None:
        return Repaired(checked, why="cannot be read")
    state, line = check_tags(text)
    if state is TagState.VALID:
        return Repaired(checked, why="has tags now")
    try:
        if state is TagState.MISSING:
            if ask is None:
                return Repaired(checked, why="no tag model")
            line = ask(text)
        if replace_bytes(checked.path, text.encode("utf-8"), _with_line(text, line, state).encode("utf-8")):
            return Repaired(checked, line)
    except (VcpError, OSError) as error:
        return Repaired(checked, why=str(error))
    return Repaired(checked, why="was changed meanwhile")


def pausing(
    ask: Callable[[str], str], seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Callable[[str], str]:
    """``ask`` with a pause before each question but the first, so that the model's limits are kept."""
    asked = False

    def paused(text: str) -> str:
        nonlocal asked
        if asked:
            sleep(seconds)
        asked = True
        return ask(text)

    return paused


def _with_line(text: str, line: str, state: TagState) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    body = text.rstrip(BLANKS)
    trailing = text[len(body) :]
    last = body.rpartition("\n")[2]
    if state is TagState.REPAIRABLE or _is_empty_tag_line(last):
        return body[: len(body) - len(last)] + line + trailing
    return body + (end if body else "") + line + (trailing if trailing.strip(" \t") else "")


def _is_empty_tag_line(line: str) -> bool:
    found = find_tag_line(line)
    return found is not None and not found[1].strip(BLANKS + ",，、")


def _text(path: Path) -> str | None:
    try:
        if path.stat().st_size > MAX_CONTENT_BYTES:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
