"""What the server or a person hands in: the note, and the settings in the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.protocol.half_characters import whole

from .failure import NoteError

MAX_CONTENT_BYTES = 8 * 1024 * 1024
"""Longest diary text, in bytes of UTF-8."""

MAX_INPUT_BYTES = 64 * 1024 * 1024
"""Longest JSON on stdin: escaping can make a text six times longer."""

DEFAULT_ZONE = "Asia/Shanghai"
DEFAULT_MAX_TOKENS = 40_000
DEFAULT_PROMPT_FILE = "TagMaster.txt"

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
class TagModel:
    """Where tags are asked for. ``base_url`` ends before ``/v1`` (D12)."""

    base_url: str
    key: str
    model: str
    max_tokens: int
    prompt_file: str
    proxy: str | None


@dataclass(frozen=True, slots=True)
class Settings:
    """The environment, read. ``warnings`` are for stderr; ``no_tags_why`` tells why there is no tag model."""

    root: Path
    zone: ZoneInfo
    extension: str
    tag_model: TagModel | None
    no_tags_why: str
    warnings: tuple[str, ...]


def read_note(data: bytes) -> Note:
    """The note of a stdin JSON object; names of the block form and of the tool form are both taken."""
    if len(data) > MAX_INPUT_BYTES:
        raise NoteError(
            f"输入超过 {MAX_INPUT_BYTES} 字节，请分成几篇日记",
            f"the input is over {MAX_INPUT_BYTES} bytes: split the note",
        )
    try:
        arguments = json.loads(data.decode("utf-8-sig")) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise NoteError(f"标准输入不是 JSON：{error}", f"stdin is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise NoteError("标准输入必须是一个 JSON 对象", "stdin must be one JSON object")
    found = {name: _text(arguments, name, accepted) for name, accepted in _NAMES.items()}
    missing = [name for name, value in found.items() if not value.strip()]
    if missing:
        names = "、".join(missing)
        raise NoteError(f"缺少参数或参数为空：{names}", f"missing or blank: {', '.join(missing)}")
    note = Note(maid=found["maidName"], date=found["dateString"], content=found["contentText"])
    size = len(note.content.encode("utf-8"))
    if size > MAX_CONTENT_BYTES:
        raise NoteError(
            f"日记有 {size} 字节，上限是 {MAX_CONTENT_BYTES}，请分成几篇",
            f"the note has {size} bytes, the limit is {MAX_CONTENT_BYTES}: split it",
        )
    return note


def _text(arguments: Mapping[str, object], name: str, accepted: tuple[str, ...]) -> str:
    """The first of the accepted names that brings text; a blank one does not hide a filled one."""
    for key in accepted:
        value = arguments.get(key)
        if value is None:
            continue
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise NoteError(f"参数 {key} 必须是文本", f"{key} must be text")
        if str(value).strip():
            return whole(str(value))  # half a surrogate pair cannot be stored in UTF-8
    return ""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings of this call. A bad optional value gives its default and a warning."""
    base = environment.get("PROJECT_BASE_PATH", "").strip()
    if not base or not Path(base).is_dir():
        raise NoteError(
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
    tag_model, why = _tag_model(environment, warnings)
    return Settings(
        root=Path(base) / "dailynote",
        zone=zone,
        extension=extension,
        tag_model=tag_model,
        no_tags_why=why,
        warnings=tuple(warnings),
    )


def _tag_model(environment: Mapping[str, str], warnings: list[str]) -> tuple[TagModel | None, str]:
    values = {name: environment.get(name, "").strip() for name in ("TagModel", "API_URL", "API_Key")}
    missing = [name for name, value in values.items() if not value]
    if missing:
        names = ", ".join(missing)
        return None, f"没有设置 {names} / not set: {names}"
    given = environment.get("TagModelMaxTokens", "").strip()
    max_tokens = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
    if not max_tokens:
        max_tokens = DEFAULT_MAX_TOKENS
        if given:
            warnings.append(f"TagModelMaxTokens={given!r} is not a positive number; {max_tokens} is used")
    model = TagModel(
        base_url=values["API_URL"].rstrip("/").removesuffix("/v1").rstrip("/"),
        key=values["API_Key"],
        model=values["TagModel"],
        max_tokens=max_tokens,
        prompt_file=environment.get("TagModelPrompt", "").strip() or DEFAULT_PROMPT_FILE,
        proxy=environment.get("UpstreamProxy", "").strip() or None,
    )
    return model, ""
