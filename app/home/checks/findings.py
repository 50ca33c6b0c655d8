"""What a check tells: findings with their place, and the views of an installation that all checks share."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.config.snapshot import Config
from app.extend import Json
from app.protocol.json_text import strict_json

MAX_JSON_BYTES = 16 * 1024 * 1024


class Level(StrEnum):
    """How bad it is: an error keeps something from working, a warning may, a note is good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Topic(StrEnum):
    """What a finding is about, in the order in which a person is told."""

    SETTINGS = "settings"
    KEYS = "keys"
    PROMPTS = "prompts"
    PLUGINS = "plugins"
    FILES = "files"
    FOLDERS = "folders"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    ``file`` is a path below the home (or an absolute one outside of it, or words such as ``environment``), ``line`` and
    ``column`` count from 1, ``subject`` is the setting, placeholder or plugin that is meant. No text of a finding ever
    holds the value of a secret.
    """

    level: Level
    topic: Topic
    chinese: str
    english: str
    file: str = ""
    line: int | None = None
    column: int | None = None
    subject: str = ""

    @property
    def place(self) -> str:
        """File, line and column as editors know them."""
        parts = [self.file, self.line, self.column if self.line is not None else None]
        return ":".join(str(part) for part in parts if part not in ("", None))


@dataclass(frozen=True, slots=True)
class Installation:
    """What the checks look at: the configuration, and the process environment that it was read under."""

    config: Config
    environ: Mapping[str, str]

    @property
    def home(self) -> Path:
        """The absolute path of the home."""
        return self.config.home

    @property
    def notebooks_name(self) -> str:
        """The folder of the notebooks as people read it."""
        return self.shown(self.config.notebooks)

    def shown(self, path: Path) -> str:
        """A path as people read it: below the home without it, with slashes."""
        for home in (self.home, self.home.resolve()):
            if path.is_relative_to(home):
                return path.relative_to(home).as_posix()
        return str(path)


@dataclass(frozen=True, slots=True)
class JsonFault:
    """Why a JSON file cannot be used."""

    chinese: str
    english: str
    line: int | None = None
    column: int | None = None

    def finding(self, level: Level, topic: Topic, file: str) -> Finding:
        """The finding about this file."""
        return Finding(level, topic, self.chinese, self.english, file, self.line, self.column)


def read_json_file(path: Path) -> Json | JsonFault | None:
    """The value of a JSON file (a byte-order mark is allowed), what is wrong with it, or None when there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return _unreadable(error)
    if not stat.S_ISREG(status.st_mode):
        return JsonFault("不是普通文件", "is not a regular file")
    if status.st_size > MAX_JSON_BYTES:
        return JsonFault(f"超过 {MAX_JSON_BYTES} 字节", f"is larger than {MAX_JSON_BYTES} bytes")
    try:
        data = path.read_bytes()
        return strict_json(data.decode("utf-8-sig"))
    except OSError as error:
        return _unreadable(error)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return JsonFault("不是 UTF-8 编码", "is not UTF-8", line)
    except json.JSONDecodeError as error:
        return JsonFault(f"不是有效的 JSON（{error.msg}）", f"is no JSON: {error.msg}", error.lineno, error.colno)
    except (ValueError, RecursionError) as error:
        return JsonFault(f"不是可用的 JSON（{error}）", f"is no usable JSON: {error}")


def _unreadable(error: OSError) -> JsonFault:
    reason = error.strerror or str(error)
    return JsonFault(f"无法读取：{reason}", f"cannot be read: {reason}")


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Where a character stands, both counted from 1."""
    before = text.count("\n", 0, offset)
    return before + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What is in a folder, by name; nothing when it is missing or cannot be listed."""
    try:
        with os.scandir(folder) as found:
            yield from sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
