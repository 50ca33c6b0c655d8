"""One process owns a home (D88): an operating system lock on ``.vcp/lock``, and beside it who holds it.

The lock ends with its process, however that ends, so a crash leaves nothing to clean up. Who the owner is stands in a
file of its own: it is replaced atomically, which a file that others have locked cannot be.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import write_atomic
from app.config.file_lock import try_lock
from app.config.small_file import read_small
from app.errors import VcpError, both

log = logging.getLogger(__name__)

STATE_FOLDER = ".vcp"
LOCK_FILE = Path(STATE_FOLDER) / "lock"
OWNER_FILE = Path(STATE_FOLDER) / "owner.json"

TRIES = 10
TRY_SECONDS = 0.05
"""How often a lock is asked for, and the pause between: who only looks for an owner holds it for a blink."""

_MAX_OWNER_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns a home.

    ``pid`` is 0 while it is not known. ``address`` is where the server can be reached from this machine, empty while
    it starts and for commands that serve nothing. ``command`` is the word after ``vcp``.
    """

    pid: int = 0
    address: str = ""
    command: str = ""

    def __str__(self) -> str:
        process = both(f"进程 {self.pid}", f"process {self.pid}") if self.pid else both("另一进程", "another process")
        details = ", ".join(part for part in (f"vcp {self.command}" if self.command else "", self.address) if part)
        return f"{process} ({details})" if details else process


class HomeTakenError(VcpError):
    """Another process owns the home; ``owner`` says which."""

    status = 503
    code = "home_taken"

    def __init__(self, home: Path, owner: Owner) -> None:
        super().__init__(
            f"{home}: "
            + both("该安装目录正被占用：", "this home is in use: ")
            + f"{owner}; "
            + both("请先停止它，或换一个 --home", "stop it first, or choose another --home")
        )
        self.owner = owner


class Ownership:
    """What the owner of a home holds; ``address`` is what was told last. ``descriptor`` is the lock's, None without."""

    def __init__(self, home: Path, command: str, descriptor: int | None) -> None:
        self._path = home / OWNER_FILE
        self._command = command
        self._descriptor = descriptor
        self.address = ""

    def tell(self, address: str) -> None:
        """Write down who owns the home and where it is served; a disk that refuses is a warning only."""
        self.address = address
        if self._descriptor is None:
            return
        facts = {"pid": os.getpid(), "address": address, "command": self._command}
        try:
            write_atomic(self._path, (json.dumps(facts) + "\n").encode(), mode=0o600)
        except OSError as error:
            log.warning("%s cannot be written (%s); other commands will not find this process", self._path, error)

    def leave(self) -> None:
        """Take back what was written down."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def handed_on(self) -> int | None:
        """The descriptor of the lock, which a program that this process becomes inherits; None without a lock."""
        if self._descriptor is not None:
            os.set_inheritable(self._descriptor, True)
        return self._descriptor


@contextlib.contextmanager
def own_home(home: Path, command: str, inherited: int | None = None) -> Iterator[Ownership]:
    """Own the home while the block runs. ``inherited`` is a descriptor that was ``handed_on``; it is used if it is one.

    Raises HomeTakenError when another process does. Where the file system has no locks, or nothing can be written, a
    warning is logged and the block runs all the same: two owners are then possible, as they always were.
    """
    descriptor = _inherited(home / LOCK_FILE, inherited)
    if descriptor is None:
        descriptor = _opened(home / LOCK_FILE)
    try:
        held = descriptor is not None and _acquired(home, descriptor)
        ownership = Ownership(home, command, descriptor if held else None)
        ownership.tell("")
        try:
            yield ownership
        finally:
            ownership.leave()
    finally:
        if descriptor is not None:
            os.close(descriptor)


def owner_of(home: Path) -> Owner | None:
    """The process that owns the home now, or None. Changes nothing, and makes no file."""
    try:
        descriptor = os.open(home / LOCK_FILE, os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError:
        try:
            descriptor = os.open(home / LOCK_FILE, os.O_RDONLY)
        except OSError:
            return None  # who may not even read the lock has no business with the owner
    try:
        return None if try_lock(descriptor) is not False else _written(home)
    finally:
        os.close(descriptor)


def _inherited(path: Path, descriptor: int | None) -> int | None:
    """The descriptor, if it is one of this lock file; what else it may be is left alone."""
    if descriptor is None:
        return None
    try:
        if not os.path.samestat(os.fstat(descriptor), path.stat()):
            return None
        os.set_inheritable(descriptor, False)
    except (OSError, OverflowError):
        return None
    return descriptor


def _opened(path: Path) -> int | None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        log.warning("%s cannot be made (%s); nothing keeps a second server out of this home", path, error)
        return None


def _acquired(home: Path, descriptor: int) -> bool:
    for attempt in range(TRIES):
        if attempt:
            time.sleep(TRY_SECONDS)
        outcome = try_lock(descriptor)
        if outcome is None:
            log.warning(
                "%s: this file system has no locks; nothing keeps a second server out of this home", home / LOCK_FILE
            )
            return False
        if outcome:
            return True
    raise HomeTakenError(home, _written(home))


def _written(home: Path) -> Owner:
    """What the owner wrote down; an unknown owner when there is nothing that can be read."""
    try:
        facts = json.loads(read_small(home / OWNER_FILE, _MAX_OWNER_BYTES))
    except (OSError, ValueError, RecursionError):
        return Owner()
    if not isinstance(facts, dict):
        return Owner()
    pid, address, command = facts.get("pid"), facts.get("address"), facts.get("command")
    return Owner(
        pid if isinstance(pid, int) and not isinstance(pid, bool) else 0,
        address if isinstance(address, str) else "",
        command if isinstance(command, str) else "",
    )
