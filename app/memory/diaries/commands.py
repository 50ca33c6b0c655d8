"""What the tools DailyNote, DailyNoteEditor and DailyNoteWrite do with one call (memory.md 1.5, 1.6)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from app.memory.diaries.edits import Edit, edit_diary
from app.memory.diaries.files import DiaryError
from app.memory.diaries.notebooks import resolve_notebook
from app.memory.diaries.permissions import read_permissions
from app.memory.diaries.requests import DiarySettings, read_note, read_settings, text_argument
from app.memory.diaries.tag_model import TagModel, read_tag_model
from app.memory.diaries.writing import Draft, add_tags, store
from app.protocol.diary import normalise_tags, split_author, split_tag_line
from app.protocol.half_characters import whole

AUTHOR = ("maid", "maidName", "Maid", "MAID")


class DiaryCommands:
    """The commands of a tool whose plugin lies in ``plugin_folder``; ``name`` stands before its warnings."""

    def __init__(self, name: str, plugin_folder: Path) -> None:
        self._name = name
        self._plugin_folder = plugin_folder

    def run(self, arguments: Mapping[str, object]) -> dict[str, str]:
        """The fields of the answer to a call with ``command``: create or update."""
        command = text_argument(arguments, "command").strip()
        if command.lower() == "create":
            return self.create(arguments)
        if command.lower() == "update":
            return self.update(arguments)
        raise DiaryError(
            f"未知的 command {command[:40]!r}，可用：create、update",
            f"unknown command {command[:40]!r}; there are create and update",
        )

    def create(self, arguments: Mapping[str, object]) -> dict[str, str]:
        """Store a new note; it has to bring its tags unless ``TagMaster`` lets the tagging model give them."""
        settings = self._settings()
        draft = read_draft(arguments, settings.root)
        if draft.tag_line is None and not settings.tag_master:
            raise DiaryError(
                "日记缺少标签：请在 Content 最后一行写“Tag: 关键词1, 关键词2”，或用参数 Tag 给出。日记没有保存",
                "the note has no tags: end Content with a line 'Tag: word, word', or give them as Tag. "
                "Nothing was saved",
            )
        return self._stored(draft, settings)

    def write(self, arguments: Mapping[str, object]) -> dict[str, str]:
        """Store a note of a reply; the tagging model is asked for the tags that are missing."""
        settings = self._settings()
        note = read_note(arguments)
        notebook, signature = split_author(note.maid)
        body, tag_line = split_tag_line(note.content.replace("\r\n", "\n"))
        notebook = resolve_notebook(settings.root, notebook)
        return self._stored(Draft(notebook, note.date, signature, body, tag_line), settings)

    def update(self, arguments: Mapping[str, object]) -> dict[str, str]:
        """Replace the first occurrence of ``target`` in the first note that has it."""
        replacement = arguments.get("replace")
        if not isinstance(replacement, str):
            raise DiaryError("缺少参数 replace（可以为空文本）", "replace is missing; it may be an empty text")
        settings = self._settings()
        maid = text_argument(arguments, *AUTHOR)
        edit = Edit(
            target=text_argument(arguments, "target"),
            replacement=whole(replacement),
            maid=maid,
            folder=text_argument(arguments, "folder"),
        )
        permissions = read_permissions(settings.home)
        agent = split_author(maid)[1]
        path = edit_diary(
            settings.root, edit, lambda notebook: permissions.may_write(agent, notebook), nearest=settings.fuzzy_diff
        )
        return {"result": f"Successfully edited diary file: {path}"}

    def _stored(self, draft: Draft, settings: DiarySettings) -> dict[str, str]:
        read_permissions(settings.home).check_write(draft.signature, draft.notebook)
        model, why = (None, "") if draft.tag_line is not None else self._tag_model()
        path = store(draft, settings)
        message = f"Diary saved to {path}"
        if model is not None:
            from app.memory.diaries.tagging import prompt_folders

            why = add_tags(path, draft, model, prompt_folders(self._plugin_folder))
        if why:
            message += f"\n没有标签 / Stored without tags: {why}"
        return {"message": message, "filePath": str(path)}

    def _tag_model(self) -> tuple[TagModel | None, str]:
        model, why, warnings = read_tag_model(os.environ)
        self._warn(warnings)
        return model, why

    def _settings(self) -> DiarySettings:
        settings = read_settings(os.environ)
        self._warn(settings.warnings)
        return settings

    def _warn(self, warnings: tuple[str, ...]) -> None:
        for warning in warnings:
            print(f"{self._name}: {warning}", file=sys.stderr)


def read_draft(arguments: Mapping[str, object], root: Path) -> Draft:
    """The note of a call in the tool form: ``maid``, ``Date``, ``Content``, and ``folder``, ``fileName``, ``Tag``.

    ``folder`` beats the brackets in ``maid``, ``Tag`` beats a tag line in ``Content``. Raises DiaryError.
    """
    note = read_note(arguments)
    notebook, signature = split_author(note.maid)
    body, tag_line = split_tag_line(note.content.replace("\r\n", "\n"))
    if tags := text_argument(arguments, "Tag", "tag", "Tags", "tags").strip():
        tag_line = normalise_tags(tags)
    notebook = text_argument(arguments, "folder", "Folder").strip() or notebook
    return Draft(
        notebook=resolve_notebook(root, notebook),
        date=note.date,
        signature=signature,
        body=body.rstrip(),
        tag_line=tag_line,
        suffix=text_argument(arguments, "fileName", "FileName"),
    )
