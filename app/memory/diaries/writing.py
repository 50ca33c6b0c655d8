"""Storing one new note, and the tags that it lacks (memory.md 1.2 to 1.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from app.memory.diaries.files import DiaryError, create_note, notebook_folder, replace_note
from app.memory.diaries.requests import DiarySettings
from app.memory.diaries.tag_model import TagModel
from app.protocol.diary import diary_text


@dataclass(frozen=True, slots=True)
class Draft:
    """A note that is not stored yet. ``tag_line`` is normalised, ``suffix`` comes at the end of the file's name."""

    notebook: str
    date: str
    signature: str
    body: str
    tag_line: str | None
    suffix: str = ""

    def text(self, tag_line: str | None = None) -> str:
        """The whole file, with ``tag_line`` where the draft has none."""
        return diary_text(self.date, self.signature, self.body, self.tag_line or tag_line)


def store(draft: Draft, settings: DiarySettings) -> Path:
    """Write the note under a name of its own; raises DiaryError and OSError, and then nothing is stored."""
    folder = notebook_folder(settings.root, draft.notebook)
    moment = datetime.now(settings.zone)
    return create_note(folder, draft.date, moment, settings.extension, draft.text(), suffix=draft.suffix)


def add_tags(path: Path, draft: Draft, model: TagModel, prompt_folders: Sequence[Path]) -> str:
    """Ask ``model`` for the tags of a stored note and write them into it; returns why there are none, or nothing.

    The note is on the disk before anybody is asked: a tagger that fails, or a server that stops, loses nothing.
    """
    # Loading the HTTP client costs more than all the rest of a call that brings its own tags.
    from app.memory.diaries.tagging import NoTagsError, tags_for

    try:
        tag_line = tags_for(draft.body, model, prompt_folders)
        if replace_note(path, draft.text(), draft.text(tag_line)):
            return ""
    except (NoTagsError, DiaryError, OSError) as error:
        return str(error)
    return "日记在此期间被改动 / the note was changed in the meantime"
