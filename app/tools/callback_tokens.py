"""Which callbacks of background plugins are ours: tokens that were handed out, task ids that were seen (D19, B4).

A token stands for one call of one plugin. It is bound to that plugin, and to the tasks that the plugin's first answer
names; before that, to the task of its first callback. Each token and each known task is a small file of mode 0600,
found by a digest, so a callback is still known after the server was killed, and to every process of the installation;
the token itself is not stored.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small
from app.extend import Clock
from app.protocol.json_text import strict_json

log = logging.getLogger(__name__)

TOKEN_BYTES = 24
TOKEN_CHARS = 200
"""Longest text that is looked up as a token."""

TASKS = 64
"""Tasks that one call may have."""

KEPT_DAYS = 30
KEPT_FILES = 20_000
PRUNE_EACH = 500
"""Tokens handed out between two looks for old files."""

_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Ticket:
    plugin: str
    tasks: tuple[str, ...] = ()


class CallbackTokens:
    """The tokens and tasks of one installation, in ``folder``. Methods block; they may be called from any thread."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        self._until_prune = 0

    def issue(self, plugin: str) -> str:
        """A new token for one call of ``plugin``; on the disk when this returns. Raises OSError."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._until_prune <= 0:
                self._prune()
                self._until_prune = PRUNE_EACH
            self._until_prune -= 1
            self._write(_token_file(token), _Ticket(plugin))
        return token

    def withdraw(self, token: str) -> None:
        """The call came to nothing: nobody will call back with this token."""
        try:
            (self._folder / _token_file(token)).unlink(missing_ok=True)
        except OSError as error:
            log.warning("a callback token cannot be deleted: %s", error)

    def bind(self, token: str, plugin: str, tasks: Sequence[str]) -> None:
        """The first answer named these tasks: the token is for them alone. Raises OSError."""
        with self._lock:
            ticket = self._read(_token_file(token))
            if ticket is not None and ticket.plugin == plugin and tasks:
                together = tuple(dict.fromkeys((*ticket.tasks, *tasks)))[:TASKS]
                self._write(_token_file(token), _Ticket(plugin, together))

    def learn(self, plugin: str, tasks: Sequence[str]) -> None:
        """These tasks were seen in a first answer: callbacks for them need no token (D19). Raises OSError."""
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for task in tasks[:TASKS]:
                self._write(_task_file(plugin, task), _Ticket(plugin, (task,)))

    def accepts(self, token: str, plugin: str, task: str) -> bool:
        """Whether a callback with this token may tell of this task; the first one binds an unbound token."""
        if not token or len(token) > TOKEN_CHARS:
            return False
        with self._lock:
            ticket = self._read(_token_file(token))
            if ticket is None or ticket.plugin != plugin:
                return False
            if ticket.tasks:
                return task in ticket.tasks
            try:
                self._write(_token_file(token), _Ticket(plugin, (task,)))
            except OSError as error:
                log.warning("a callback token cannot be bound to its task: %s", error)
            return True

    def knows(self, plugin: str, task: str) -> bool:
        """Whether this task was seen in a first answer of this plugin."""
        ticket = self._read(_task_file(plugin, task))
        return ticket == _Ticket(plugin, (task,))

    def _read(self, name: str) -> _Ticket | None:
        try:
            value = strict_json(read_small(self._folder / name, _MAX_BYTES).decode())
            plugin, tasks = value["plugin"], value["tasks"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            log.warning("%s cannot be read: %r", self._folder / name, error)
            return None
        if (
            not isinstance(plugin, str)
            or not isinstance(tasks, list)
            or not all(isinstance(task, str) for task in tasks)
        ):
            return None
        return _Ticket(plugin, tuple(tasks))

    def _write(self, name: str, ticket: _Ticket) -> None:
        write_atomic(self._folder / name, json.dumps(asdict(ticket)).encode(), mode=0o600)

    def _prune(self) -> None:
        """Delete what is too old or too much; files of other names are not ours."""
        found = []
        try:
            for path in (*self._folder.glob("token-*.json"), *self._folder.glob("task-*.json")):
                found.append((path.lstat().st_mtime, path))
            found.sort()
            oldest = self._clock() - KEPT_DAYS * 86_400
            for number, (modified, path) in enumerate(found):
                if modified < oldest or number < len(found) - KEPT_FILES:
                    path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("old callback tokens cannot be deleted: %s", error)


def _token_file(token: str) -> str:
    return f"token-{_digest(token)}.json"


def _task_file(plugin: str, task: str) -> str:
    return "task-" + _digest(f"{plugin}\0{task}") + ".json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]
