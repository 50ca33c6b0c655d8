"""When was the chat before this one: ``{{LastChatTime}}`` and ``{{TimeSinceLastChat}}`` (memory.md 6.5)."""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from datetime import datetime, tzinfo
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small
from app.errors import both
from app.protocol.json_text import compact_json, strict_json

LAST_CHAT_TIME = "LastChatTime"
TIME_SINCE = "TimeSinceLastChat"

SAME_CHAT_SECONDS = 60.0
"""Requests so near to each other are one visit: a question asked again must not make the last chat a moment ago."""

KEYS_LIMIT = 2_000
FILE_LIMIT = 1024 * 1024


class ChatTimes:
    """Times of visits by key, kept in one file; the oldest keys are forgotten first. Blocks; any thread may call it."""

    def __init__(self, path: Path, log: logging.Logger) -> None:
        self._path = path
        self._log = log
        self._lock = threading.Lock()
        self._times: OrderedDict[str, tuple[float | None, float]] | None = None

    def visit(self, key: str, now: float) -> float | None:
        """Note a visit; when the visit before it ended, None when there was none. Times are Unix seconds."""
        with self._lock:
            times = self._times if self._times is not None else self._read()
            self._times = times
            before, last = times.pop(key, (None, None))
            if last is not None and not 0 <= now - last < SAME_CHAT_SECONDS:
                before = last
            times[key] = before, now
            while len(times) > KEYS_LIMIT:
                times.popitem(last=False)
            self._write(times)
            return before

    def _read(self) -> OrderedDict[str, tuple[float | None, float]]:
        try:
            value = strict_json(read_small(self._path, FILE_LIMIT).decode("utf-8"))
        except FileNotFoundError:
            return OrderedDict()
        except (OSError, ValueError, RecursionError) as fault:
            self._log.warning("the times of chats are forgotten: %s", fault)
            return OrderedDict()
        entries = value.items() if isinstance(value, dict) else ()
        times: OrderedDict[str, tuple[float | None, float]] = OrderedDict()
        for key, entry in entries:
            if isinstance(entry, list) and len(entry) == 2 and _is_time(entry[1]):
                times[key] = (float(entry[0]) if _is_time(entry[0]) else None), float(entry[1])
        return times

    def _write(self, times: OrderedDict[str, tuple[float | None, float]]) -> None:
        try:
            write_atomic(self._path, compact_json(times).encode("utf-8"), 0o600)
        except OSError as fault:
            self._log.warning("the times of chats cannot be stored: %s", fault.strerror or fault)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 < value < 1e11


def chat_time(before: float | None, zone: tzinfo) -> str:
    """The time of the chat before, such as ``2025/11/27 15:30:00``."""
    if before is None:
        return both("首次对话", "first chat")
    moment = datetime.fromtimestamp(before, zone)
    return f"{moment.year}/{moment.month}/{moment.day} {moment:%H:%M:%S}"


def time_since(before: float | None, now: float) -> str:
    """How long ago that was, in its two largest units."""
    if before is None:
        return both("首次对话", "first chat")
    seconds = max(0, int(now - before))
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    if days:
        return f"{days}天{hours}小时"
    if hours:
        return f"{hours}小时{minutes}分钟"
    return f"{minutes}分钟" if minutes else f"{seconds}秒"
