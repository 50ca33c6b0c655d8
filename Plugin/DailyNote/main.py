"""DailyNote: creates and edits diary notes for models (vcp-core 9; memory.md 1.6).

One JSON object on stdin, one on stdout. Exit code 1 when nothing was stored or changed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime


def answer(fields: Mapping[str, str]) -> None:
    """Print the one answer in UTF-8, whatever the system's code page is (P44)."""
    text = json.dumps(fields, ensure_ascii=False) + "\n"
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def fail(message: str) -> int:
    """Answer with an error; the text stands in both fields that readers of plugin answers know."""
    answer({"status": "error", "error": message, "message": message})
    return 1


def create(arguments: Mapping[str, object]) -> dict[str, str]:
    """Store a new note; it has to bring its tags, as ``Tag`` or in the last line of ``Content``."""
    from app.memory.diary_files import DiaryError, create_note, notebook_folder
    from app.memory.diary_requests import read_note, read_settings, text_argument
    from app.protocol.diary import diary_text, normalise_tags, split_author, split_tag_line

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


def update(arguments: Mapping[str, object]) -> dict[str, str]:
    """Replace the first occurrence of ``target`` in the first note that has it."""
    from app.memory.diary_edits import Edit, edit_diary
    from app.memory.diary_files import DiaryError
    from app.memory.diary_requests import read_settings, text_argument
    from app.protocol.half_characters import whole

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


COMMANDS = {"create": create, "update": update}


def main() -> int:
    """Run one call; returns the exit code."""
    try:
        from app.memory.diary_files import DiaryError
        from app.memory.diary_requests import MAX_INPUT_BYTES, read_arguments, text_argument
    except ImportError as error:
        return fail(
            f"DailyNote 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"DailyNote must be run by the interpreter that runs the server ({error.name} cannot be imported)"
        )
    try:
        arguments = read_arguments(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1))
        command = text_argument(arguments, "command").strip()
        run = COMMANDS.get(command.lower())
        if run is None:
            return fail(
                f"未知的 command {command[:40]!r}，可用：create、update / "
                f"unknown command {command[:40]!r}; there are create and update"
            )
        answer({"status": "success", **run(arguments)})
    except DiaryError as error:
        return fail(error.message)
    except UnicodeEncodeError as error:
        return fail(
            f"系统编码写不出这个文件名（{error.object[error.start : error.end]!r}），请设置 PYTHONUTF8=1 / "
            f"the system's encoding cannot write this file name ({error.encoding}): set PYTHONUTF8=1"
        )
    except OSError as error:
        return fail(f"日记没有保存：{error} / the diary was not saved: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
