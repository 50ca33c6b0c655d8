"""What a diary tool is asked for: arguments as JSON on stdin, and the diary's settings in the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.config.home_folders import notebooks_folder
from app.memory.diaries.files import DiaryError
from app.protocol.half_characters import whole

MAX_CONTENT_BYTES = 8 * 1024 * 1024
"""Longest diary text, in bytes of UTF-8."""

MAX_INPUT_BYTES = 64 * 1024 * 1024
"""Longest JSON on stdin: escaping can make a text six times longer."""

DEFAULT_ZONE = "Asia/Shanghai"

_NAMES = {
    "maidName": ("maidName", "maid", "Maid", "MAID"),
    "dateString": ("dateString", "Date", "date"),
    "contentText": ("contentText", "Content", "content"),
}


@dataclass(frozen=True, slots=True)
class Note:
    """A note to store; no field is blank."""

    maid: str
    date: str
    content: str


@dataclass(frozen=True, slots=True)
class DiarySettings:
    """The home, where diaries lie, the zone of their times (D81), the extension of new files. ``warnings`` are for
    stderr.

    ``tag_master``: the tool form may be given tags by the tagging model. ``fuzzy_diff``: an edit that finds nothing
    reports the nearest passage (memory.md 1.6).
    """

    home: Path
    root: Path
    zone: ZoneInfo
    extension: str
    warnings: tuple[str, ...]
    tag_master: bool = False
    fuzzy_diff: bool = False


def read_arguments(data: bytes) -> Mapping[str, object]:
    """The arguments of a call, a JSON object of at most ``MAX_INPUT_BYTES``; nothing at all means no arguments."""
    if len(data) > MAX_INPUT_BYTES:
        raise DiaryError(
            f"输入超过 {MAX_INPUT_BYTES} 字节，请分成几篇日记",
            f"the input is over {MAX_INPUT_BYTES} bytes: split the note",
        )
    try:
        arguments = json.loads(data.decode("utf-8-sig")) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise DiaryError(f"标准输入不是 JSON：{error}", f"stdin is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise DiaryError("标准输入必须是一个 JSON 对象", "stdin must be one JSON object")
    return arguments


def read_note(arguments: Mapping[str, object]) -> Note:
    """The note of a call; names of the block form and of the tool form are both taken (memory.md 1.5, 1.6)."""
    found = {name: text_argument(arguments, *accepted) for name, accepted in _NAMES.items()}
    missing = [name for name, value in found.items() if not value.strip()]
    if missing:
        names = "、".join(missing)
        raise DiaryError(f"缺少参数或参数为空：{names}", f"missing or blank: {', '.join(missing)}")
    note = Note(maid=found["maidName"], date=found["dateString"], content=found["contentText"])
    size = len(note.content.encode("utf-8"))
    if size > MAX_CONTENT_BYTES:
        raise DiaryError(
            f"日记有 {size} 字节，上限是 {MAX_CONTENT_BYTES}，请分成几篇",
            f"the note has {size} bytes, the limit is {MAX_CONTENT_BYTES}: split it",
        )
    return note


def text_argument(arguments: Mapping[str, object], *accepted: str) -> str:
    """The first of the accepted names that brings text, or nothing; a blank one does not hide a filled one."""
    for key in accepted:
        value = arguments.get(key)
        if value is None:
            continue
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise DiaryError(f"参数 {key} 必须是文本", f"{key} must be text")
        if str(value).strip():
            return whole(str(value))  # half a surrogate pair cannot be stored in UTF-8
    return ""


def read_settings(environment: Mapping[str, str]) -> DiarySettings:
    """The settings of this call. A bad optional value gives its default and a warning."""
    base = environment.get("PROJECT_BASE_PATH", "").strip()
    if not base or not Path(base).is_dir():
        raise DiaryError(
            f"PROJECT_BASE_PATH 没有指向现有目录：{base!r}；它由服务器设置",
            f"PROJECT_BASE_PATH names no existing folder: {base!r}; the server sets it",
        )
    warnings: list[str] = []
    zone_name = environment.get("DEFAULT_TIMEZONE", "").strip() or DEFAULT_ZONE
    try:
        zone = ZoneInfo(zone_name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        warnings.append(f"DEFAULT_TIMEZONE={zone_name!r} is not a time zone; {DEFAULT_ZONE} is used")
        zone = ZoneInfo(DEFAULT_ZONE)
    extension = environment.get("DAILY_NOTE_EXTENSION", "").strip().lower().removeprefix(".") or "txt"
    if extension not in ("txt", "md"):
        warnings.append(f"DAILY_NOTE_EXTENSION={extension!r} is neither txt nor md; txt is used")
        extension = "txt"
    return DiarySettings(
        Path(base),
        notebooks_folder(Path(base), environment.get("KNOWLEDGEBASE_ROOT_PATH", "")),
        zone,
        extension,
        tuple(warnings),
        tag_master=_is_on(environment.get("TagMaster", "")),
        fuzzy_diff=_is_on(environment.get("DAILY_NOTE_FUZZY_DIFF", "")),
    )


def _is_on(value: str) -> bool:
    return value.strip().lower() in ("true", "1", "yes", "on")
