"""What administrators have done: one line of JSON each, in a file with a limit."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from app.config.durable import write_atomic

log = logging.getLogger(__name__)

ACTIONS_FILE = Path(".vcp") / "admin_actions.jsonl"
MAX_BYTES = 2 * 1024 * 1024
"""When the file is larger, its older half goes."""

MAX_CHARS = 500


@dataclass(frozen=True, slots=True)
class Action:
    """A request of an administrator that changes something: ``at`` seconds since the epoch, ``via`` login or Basic.

    Bodies are never kept: they hold keys and texts.
    """

    at: float
    address: str
    via: str
    method: str
    path: str
    status: int


class ActionLog:
    """The file of actions of one home; methods block and never raise: what cannot be written is told in the log."""

    def __init__(self, home: Path) -> None:
        self._path = home / ACTIONS_FILE
        self._lock = threading.Lock()

    def add(self, action: Action) -> None:
        """Put an action behind the others."""
        line = json.dumps({**asdict(action), "path": action.path[:MAX_CHARS]}, ensure_ascii=False) + "\n"
        try:
            with self._lock:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                with os.fdopen(descriptor, "ab") as file:
                    file.write(line.encode("utf-8", "replace"))
                    size = file.tell()
                if size > MAX_BYTES:
                    with self._path.open("rb") as file:
                        file.seek(size - MAX_BYTES // 2)
                        _, _, kept = file.read(MAX_BYTES).partition(b"\n")
                    write_atomic(self._path, kept, 0o600)
        except OSError as fault:
            log.warning("an action of an administrator could not be noted: %s", fault.strerror or fault)

    def last(self, count: int) -> Sequence[Action]:
        """The last actions, newest first; lines that are none are left out."""
        try:
            with self._path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - count * 1200))
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return ()
        except OSError as fault:
            log.warning("the actions of administrators cannot be read: %s", fault.strerror or fault)
            return ()
        found: list[Action] = []
        for line in reversed(lines):
            if len(found) == count:
                break
            try:
                action = Action(**json.loads(line))
                whole = isinstance(action.at, int | float) and isinstance(action.status, int)
                texts = (action.address, action.via, action.method, action.path)
            except (ValueError, TypeError, RecursionError):
                continue
            if whole and all(isinstance(text, str) for text in texts):
                found.append(action)
        return found
