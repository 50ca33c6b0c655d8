"""The two commands: create a note, edit one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import datetime

from app.memory.diaries.edits import Edit, edit_diary
from app.memory.diaries.files import DiaryError, create_note, notebook_folder
from app.memory.diaries.requests import read_note, read_settings, text_argument
from app.protocol.diary import diary_text, normalise_tags, split_author, split_tag_line
from app.protocol.half_characters import whole


def run(arguments: Mapping[str, object]) -> dict[str, str]:
    """The fields of the answer to one call."""
    command = text_argument(arguments, "command").strip()
    found = _COMMANDS.get(command.lower())
    if found is None:
        raise DiaryError(
            f"未知的 command {command[:40]!r}，可用：create、update",
            f"unknown command {command[:40]!r}; there are create and update",
        )
    return found(arguments)


def _create(arguments: Mapping[str, object]) -> dict[str, str]:
    """Store a new note; it has to bring its tags, as ``Tag`` or in the last line of ``Content``."""
    note = read_note(arguments)
    settings = read_settings(os.environ)
    for warning in settings.warnings:
        print(f"DailyNote: {warning}", file=sys.stderr)
    folder_name, signature = split_author(note.maid)
    body, tag_line = split_tag_line(note.content.replace("\r\n", "\n"))
    if tags := text_argument(arguments, "Tag", "tag", "Tags", "tags").strip():
        tag_line = normalise_tags(tags)
    if tag_line is None:
        raise DiaryError(
            "日记缺少标签：请在 Content 最后一行写“Tag: 关键词1, 关键词2”，或用参数 Tag 给出。日记没有保存",
            "the note has no tags: end Content with a line 'Tag: word, word', or give them as Tag. Nothing was saved",
        )
    folder_name = text_argument(arguments, "folder").strip() or folder_name
    path = create_note(
        notebook_folder(settings.root, folder_name),
        note.date,
        datetime.now(settings.zone),
        settings.extension,
        diary_text(note.date, signature, body.rstrip(), tag_line),
        suffix=text_argument(arguments, "fileName"),
    )
    return {"message": f"Diary saved to {path}", "filePath": str(path)}


def _update(arguments: Mapping[str, object]) -> dict[str, str]:
    """Replace the first occurrence of ``target`` in the first note that has it."""
    replacement = arguments.get("replace")
    if not isinstance(replacement, str):
        raise DiaryError("缺少参数 replace（可以为空文本）", "replace is missing; it may be an empty text")
    edit = Edit(
        target=text_argument(arguments, "target"),
        replacement=whole(replacement),
        maid=text_argument(arguments, "maid", "maidName", "Maid", "MAID"),
        folder=text_argument(arguments, "folder"),
    )
    path = edit_diary(read_settings(os.environ).root, edit)
    return {"result": f"Successfully edited diary file: {path}"}


_COMMANDS = {"create": _create, "update": _update}
