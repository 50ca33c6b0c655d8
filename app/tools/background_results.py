"""Results of background plugins as files: ``VCPAsyncResults/<Plugin>-<task id>.json`` (spec 1.10, 3.6; B34, B43).

People and older installations have files there too. What this server wrote it remembers by an empty file of the same
name in a folder of its own; only those are ever deleted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from app.config.durable import write_atomic
from app.errors import BadRequestError, NotFoundError, both
from app.extend import Clock, Json
from app.protocol.background_results import result_file
from app.protocol.json_text import strict_json

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 64 * 1024 * 1024
DEPTH_LIMIT = 100
"""Deepest nesting of lists and objects in a result: what reads it further on recurses."""

SWEEP_SECONDS = 3600.0
LOCKS = 64
_DAY = 86_400.0
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class ResultLine:
    """A result in a list: its file's name, when it was written (epoch), bytes, and whether this server wrote it."""

    name: str
    changed: float
    size: int
    own: bool


@dataclass(frozen=True, slots=True)
class Retention:
    """How long results are kept: at most ``days`` (0: without end) and at most ``count`` of them (0: all)."""

    days: float = 0
    count: int = 0


class Missing(Enum):
    """Why there is no result."""

    PENDING = "pending"
    UNREADABLE = "unreadable"


class BackgroundResults:
    """Stores and reads results. ``folder`` holds them, ``own`` what tells which of them this server wrote."""

    def __init__(self, folder: Path, own: Path, retention: Callable[[], Retention], clock: Clock) -> None:
        self._folder = folder
        self._own = own
        self._retention = retention
        self._clock = clock
        self._swept = float("-inf")
        self._locks = tuple(asyncio.Lock() for _ in range(LOCKS))

    async def store(self, plugin: str, task: str, body: Json) -> None:
        """Replace the result of a task; the last of several that come at the same time stays.

        Raises BadRequestError for names and values that no file can hold, OSError when it cannot be written; the old
        result is then untouched.
        """
        name = result_file(plugin, task)
        if name is None:
            raise BadRequestError(both("插件名或任务 ID 不能用作文件名", "plugin name or task id is no file name"))
        async with self._locks[zlib.crc32(name.encode()) % LOCKS]:
            await asyncio.to_thread(self._write, name, body)

    def _write(self, name: str, body: Json) -> None:
        data = _encoded(body)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / name
        _contained(self._folder, path)
        new = not path.exists()
        write_atomic(path, data)
        if new:  # what was there before, from people or an older installation, does not become ours
            self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._own / name).touch()
        if self._clock() - self._swept >= SWEEP_SECONDS:
            self.sweep()

    def read(self, plugin: str, task: str) -> Json | Missing:
        """The result of a task, or why there is none. Blocks."""
        name = result_file(plugin, task)
        if name is None:
            return Missing.PENDING
        try:
            return strict_json(_content(_contained(self._folder, self._folder / name)).decode("utf-8-sig"))
        except FileNotFoundError:
            return Missing.PENDING
        except (OSError, ValueError, RecursionError) as error:
            log.warning("result %s cannot be read: %s", name, error)
            return Missing.UNREADABLE

    def stored(self, plugins: Collection[str]) -> Iterator[tuple[str, str]]:
        """Plugin and task of each result of these plugins, in no order; of names that may be split in several ways the
        longest plugin is meant. Blocks.
        """
        longest_first = sorted(plugins, key=len, reverse=True)
        try:
            names = [entry.name for entry in self._folder.iterdir()]
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("%s cannot be listed: %s", self._folder, error)
            return
        for name in names:
            stem = name.removesuffix(".json")
            plugin = next((plugin for plugin in longest_first if stem.startswith(f"{plugin}-")), None)
            if plugin is not None and stem != name and len(stem) > len(plugin) + 1:
                yield plugin, stem[len(plugin) + 1 :]

    def listed(self) -> list[ResultLine]:
        """All results, the last written first; links and other files are left out. Blocks. Raises OSError."""
        own = set(self._names())
        try:
            with os.scandir(self._folder) as entries:
                files = [
                    (entry.name, entry.stat(follow_symlinks=False))
                    for entry in entries
                    if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False)
                ]
        except FileNotFoundError:
            return []
        lines = [ResultLine(name, status.st_mtime, status.st_size, name in own) for name, status in files]
        return sorted(lines, key=lambda line: (-line.changed, line.name))

    def content(self, name: str, limit: int) -> bytes:
        """At most ``limit`` bytes of a result by its file's name. Blocks. Raises NotFoundError, OSError."""
        try:
            return _content(_contained(self._folder, self._folder / _result_name(name)))[:limit]
        except FileNotFoundError:
            raise _no_result(name) from None

    def delete(self, name: str) -> None:
        """Remove a result by its file's name, whoever wrote it. Blocks. Raises NotFoundError, OSError."""
        path = self._folder / _result_name(name)
        if not path.is_file() or path.is_symlink():
            raise _no_result(name)
        path.unlink(missing_ok=True)
        self._forget(name)

    def stored_since(self, plugin: str, task: str, moment: float) -> bool:
        """Whether a result of this task was written after ``moment`` (epoch). Blocks."""
        name = result_file(plugin, task)
        try:
            return name is not None and (self._folder / name).stat().st_mtime >= moment
        except OSError:
            return False

    def sweep(self) -> int:
        """Delete results of this server's that are too old or too many, oldest first; returns how many. Blocks."""
        self._swept = now = self._clock()
        retention = self._retention()
        found = []
        for name in self._names():
            try:
                found.append((self._age_mark(name), name))
            except FileNotFoundError:
                self._forget(name)  # deleted by somebody else
            except OSError as error:
                log.warning("result %s is left alone: %s", name, error)
        found.sort()
        many = len(found) - retention.count if retention.count else 0
        deleted = 0
        for number, (modified, name) in enumerate(found):
            if number < many or (retention.days and now - modified > retention.days * _DAY):
                try:
                    (self._folder / name).unlink(missing_ok=True)
                except OSError as error:
                    log.warning("result %s cannot be deleted: %s", name, error)
                    continue
                self._forget(name)
                deleted += 1
        if deleted:
            log.info("%d results of background plugins were deleted: too old or too many", deleted)
        return deleted

    def _names(self) -> list[str]:
        try:
            return [entry.name for entry in self._own.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("%s cannot be listed: %s", self._own, error)
            return []

    def _age_mark(self, name: str) -> float:
        status = (self._folder / name).lstat()
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file any more")
        return status.st_mtime

    def _forget(self, name: str) -> None:
        try:
            (self._own / name).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be deleted: %s", self._own / name, error)


def _result_name(name: str) -> str:
    """A name from a request as one of a result's file, in the folder and nowhere else (B3). Raises NotFoundError."""
    if not name.endswith(".json") or name.startswith(".") or set(name) & {"/", "\\", "\0"} or len(name) > 255:
        raise _no_result(name)
    return name


def _no_result(name: str) -> NotFoundError:
    return NotFoundError(both(f"没有结果 {name[:80]!r}", f"there is no result {name[:80]!r}"))


def _encoded(body: Json) -> bytes:
    """JSON indented by two spaces, as far as that does not blow it up beyond what is read again."""
    if _too_deep(body):
        raise BadRequestError(
            both(f"JSON 嵌套超过 {DEPTH_LIMIT} 层", f"the JSON is nested deeper than {DEPTH_LIMIT} levels")
        )
    try:
        size, parts = 0, []
        for part in json.JSONEncoder(ensure_ascii=False, indent=2, allow_nan=False).iterencode(body):
            parts.append(part)
            size += len(part)
            if 3 * size > MAX_FILE_BYTES:
                parts = [json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)]
                break
        text = "".join(parts)
    except ValueError as error:
        raise BadRequestError(
            both("JSON 中有超出范围的数", "a number in the JSON is beyond what JSON readers take")
        ) from error
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = json.dumps(body, indent=2).encode()  # halves of characters have no UTF-8 but can be escaped
    if len(data) > MAX_FILE_BYTES:
        raise BadRequestError(both("结果太大", f"the result is larger than {MAX_FILE_BYTES} bytes"))
    return data


def _too_deep(body: Json) -> bool:
    level = [body]
    for _ in range(DEPTH_LIMIT):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _contained(folder: Path, path: Path) -> Path:
    """The real path of a file in the folder; PermissionError when a link leads out of it (B3)."""
    real = path.resolve()
    if real.parent != folder.resolve():
        raise PermissionError(f"{path.name} leads out of {folder.name}/")
    return real


def _content(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise OSError(f"larger than {MAX_FILE_BYTES} bytes")
        return file.read(MAX_FILE_BYTES + 1)
