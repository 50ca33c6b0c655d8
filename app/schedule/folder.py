"""The files of scheduled calls: waiting, claimed, failed, and what came of them. Everything here blocks on the disk."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from app.config.durable import create_atomic, move_atomic, remove_atomic, write_atomic
from app.extend import Json
from app.schedule.task import MAX_TASK_BYTES, Task, json_bytes, read_fields, read_task

SUFFIX = ".json"

MAX_LISTED = 100_000
"""Task files that are looked at; what lies beyond waits until there are fewer."""

BATCH = 500
"""New task files that one look reads."""

MAX_KEPT = 10_000
"""Results, and failed tasks, that are kept whatever their age."""

MAX_RESULT_BYTES = 16 * 1024 * 1024
"""Bytes of a result's file."""

Signature = tuple[int, int, int]
"""By which a file is known to be the same: last change of its content and of its rights in ns, and its size."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look into the folder saw.

    ``names`` are all task files, ``tasks`` the new ones by name, ``unreadable`` new files that hold no task and why.
    ``more`` is true when there were more new ones than one look reads, ``complete`` unless there are too many files to
    list. ``place`` changes when the folder itself does.
    """

    names: frozenset[str]
    tasks: Mapping[str, Task]
    unreadable: Mapping[str, tuple[Signature, str]]
    more: bool
    complete: bool
    place: tuple[int, int]


class TaskFolder:
    """``VCPTimedContacts/`` and ``VCPTimedResults/`` of a home.

    A task's name is that of its file without ``.json``. It is claimed by a rename into ``.running/`` before it runs
    (D29), so that whoever finds it there knows that it may have begun; it ends as a result, or in ``failed/``.
    """

    def __init__(self, home: Path) -> None:
        self.waiting = home / "VCPTimedContacts"
        self.claimed = self.waiting / ".running"
        self.failed = self.waiting / "failed"
        self.results = home / "VCPTimedResults"

    def make(self) -> None:
        """Make the folders that are missing (B29). Raises OSError."""
        for folder in (self.claimed, self.failed, self.results):
            folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> frozenset[str]:
        """The names of the tasks that wait, and of files that would be tasks if they could be read."""
        return frozenset(_names(self.waiting))

    def look(self, known: Collection[str], unreadable: Mapping[str, Signature], zone: tzinfo) -> Look:
        """List the tasks and read those not ``known`` yet, files that are ``unreadable`` only if they changed."""
        self.make()
        held = self.waiting.stat()
        names = _names(self.waiting)
        tasks: dict[str, Task] = {}
        wrong: dict[str, tuple[Signature, str]] = {}
        more = False
        for name in names:
            if name in known:
                continue
            path = self._path(self.waiting, name)
            signature = _signature(path)
            if signature is None or unreadable.get(name) == signature:
                continue
            if len(tasks) + len(wrong) == BATCH:
                more = True
                break
            try:
                tasks[name] = read_task(_read(path), zone)
            except FileNotFoundError:
                continue  # gone since it was listed
            except OSError as error:
                wrong[name] = signature, str(error.strerror or error)
            except ValueError as error:
                wrong[name] = signature, str(error)
        place = (held.st_dev, held.st_ino)
        return Look(frozenset(names), tasks, wrong, more, len(names) < MAX_LISTED, place)

    def create(self, name: str, data: bytes) -> bool:
        """Store a new task durably; false when one of this name waits. Raises OSError."""
        self.make()
        return create_atomic(self._path(self.waiting, name), data)

    def read(self, name: str, zone: tzinfo) -> Task:
        """A task that waits. Raises OSError, ValueError."""
        return read_task(_read(self._path(self.waiting, name)), zone)

    def waits(self, name: str) -> bool:
        """True when a task of this name waits."""
        return self._path(self.waiting, name).is_file()

    def remove(self, name: str) -> None:
        """Take back a task that waits. Raises OSError."""
        remove_atomic(self._path(self.waiting, name))

    def claim(self, name: str) -> None:
        """Make the task ours, at one stroke; FileNotFoundError when it was taken back. Raises OSError.

        The result of an earlier task of this name goes first: one that is there belongs to the claim. A claim of this
        name that could not be settled yet is not overwritten.
        """
        claim = self._path(self.claimed, name)
        if claim.exists():
            raise FileExistsError(errno.EEXIST, "an earlier run is not settled", str(claim))
        remove_atomic(self._path(self.results, name))
        move_atomic(self._path(self.waiting, name), claim)

    def claims(self) -> list[str]:
        """The names of all claimed tasks."""
        return sorted(_names(self.claimed))

    def read_claim(self, name: str, zone: tzinfo) -> Task:
        """A claimed task. Raises OSError, ValueError."""
        return read_task(_read(self._path(self.claimed, name)), zone)

    def has_result(self, name: str) -> bool:
        """True when what came of the task was stored."""
        return self._path(self.results, name).is_file()

    def store_result(self, name: str, result: Mapping[str, Json]) -> None:
        """Keep what came of a task (7.2). Raises OSError, ValueError for what is no JSON or too large."""
        data = json_bytes(result)
        if len(data) > MAX_RESULT_BYTES:
            raise ValueError(f"larger than {MAX_RESULT_BYTES} bytes")
        write_atomic(self._path(self.results, name), data)

    def release(self, name: str) -> None:
        """The claimed task has ended. Raises OSError."""
        self._path(self.claimed, name).unlink(missing_ok=True)

    def fail(self, name: str, failure: Mapping[str, Json]) -> None:
        """Move a claimed task to ``failed/``, with the reason in its file (B36). Raises OSError.

        A file that is no JSON object, and any file on a full disk, is moved as it is.
        """
        claim, target = self._path(self.claimed, name), self._path(self.failed, name)
        try:
            fields = {key: value for key, value in read_fields(_read(claim)).items() if key != "interrupted"}
            write_atomic(target, json_bytes({**fields, "failure": dict(failure)}))
        except (OSError, ValueError):
            claim.replace(target)
            os.utime(target)  # it is as old as its failure
        else:
            claim.unlink(missing_ok=True)

    def put_back(self, name: str, interrupted: int) -> bool:
        """Let a claimed task wait again, with the number of its interrupted runs in its file.

        False when another task of its name waits by now. Raises OSError, ValueError.
        """
        claim = self._path(self.claimed, name)
        write_atomic(claim, json_bytes({**read_fields(_read(claim)), "interrupted": interrupted}))
        if self.waits(name):
            return False
        claim.rename(self._path(self.waiting, name))
        return True

    def prune(self, before: float) -> int:
        """Remove results and failed tasks last changed ``before`` a moment, and what exceeds ``MAX_KEPT`` (B43).

        Left-overs of writes that a crash cut short go by the same rule. Returns how many files went.
        """
        gone = 0
        for folder in (self.results, self.failed, self.waiting, self.claimed):
            kept: list[tuple[float, Path]] = []
            for name in _files(folder):
                left_over = name.startswith(".") and name.endswith(".tmp")
                if left_over or (folder in (self.results, self.failed) and name.endswith(SUFFIX)):
                    signature = _signature(folder / name)
                    if signature is not None:
                        kept.append((signature[0] / 1e9, folder / name))
            kept.sort(reverse=True)
            for place, (changed, path) in enumerate(kept):
                if changed < before or place >= MAX_KEPT:
                    path.unlink(missing_ok=True)
                    gone += 1
        return gone

    def _path(self, folder: Path, name: str) -> Path:
        return folder / (name + SUFFIX)


def _files(folder: Path) -> list[str]:
    """Regular files, links not followed."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]


def _names(folder: Path) -> list[str]:
    """The names of task files, hidden ones left out."""
    try:
        files = _files(folder)
    except FileNotFoundError:
        return []
    named = (name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX) and not name.startswith("."))
    return list(itertools.islice(named, MAX_LISTED))


def _signature(path: Path) -> Signature | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _read(path: Path) -> bytes:
    """At most ``MAX_TASK_BYTES``; ValueError beyond. What is no regular file, and might block, is not read."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        data = file.read(MAX_TASK_BYTES + 1)
    if len(data) > MAX_TASK_BYTES:
        raise ValueError(f"larger than {MAX_TASK_BYTES} bytes")
    return data
