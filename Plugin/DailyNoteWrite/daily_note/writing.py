"""One call, from its arguments to the stored file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from app.memory.diaries.files import DiaryError, create_note, notebook_folder, replace_note
from app.memory.diaries.requests import read_note, read_settings
from app.protocol.diary import diary_text, split_author, split_tag_line

from .tag_model import TagModel, read_tag_model

_PLUGIN_FOLDER = Path(__file__).resolve().parent.parent


def write(arguments: Mapping[str, object]) -> dict[str, str]:
    """Store the note and return the fields of the answer: ``message`` and ``filePath``.

    The note is on the disk before any model is asked for its tags: a tagger that fails, or a server that stops in the
    meantime, loses nothing.
    """
    note = read_note(arguments)
    settings = read_settings(os.environ)
    tag_model, no_tags_why, tag_warnings = read_tag_model(os.environ)
    for warning in (*settings.warnings, *tag_warnings):
        print(f"DailyNoteWrite: {warning}", file=sys.stderr)
    folder_name, signature = split_author(note.maid)
    body, tag_line = split_tag_line(note.content.replace("\r\n", "\n"))
    text = diary_text(note.date, signature, body, tag_line)
    folder = notebook_folder(settings.root, folder_name)
    path = create_note(folder, note.date, datetime.now(settings.zone), settings.extension, text)
    message = f"Diary saved to {path}"
    if tag_line is None:
        why = no_tags_why
        if tag_model is not None:
            why = _add_tags(path, text, (note.date, signature, body), tag_model)
        if why:
            message += f"\n没有标签 / Stored without tags: {why}"
    return {"message": message, "filePath": str(path)}


def _add_tags(path: Path, text: str, parts: tuple[str, str, str], model: TagModel) -> str:
    """Ask for tags and write them into the note; returns why there are none, or nothing."""
    # Loading the HTTP client costs more than all the rest of a call that brings its own tags.
    from .tagging import NoTagsError, tags_for

    date, signature, body = parts
    try:
        tag_line = tags_for(body, model, _PLUGIN_FOLDER)
        if replace_note(path, text, diary_text(date, signature, body, tag_line)):
            return ""
    except (NoTagsError, DiaryError, OSError) as error:
        return str(error)
    return "日记在此期间被改动 / the note was changed in the meantime"
