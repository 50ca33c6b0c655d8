"""Processes of a plugin that left its group (``setsid``, daemons), found by a mark in their environment.

A group is all that a system can signal at once, and a daemon leaves it on purpose; what it seldom does is to clean its
environment. So every plugin process gets a variable of its own that its descendants inherit. Works where ``/proc``
shows environments (Linux); elsewhere, and for what did clean its environment, the group is all that can be ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Iterator

MARK = "VCP_PLUGIN_CALL"
"""Name of the variable. Its value begins with what all processes of one server share."""

SWEEPS = 3
"""How often strays are looked for when they are killed: one may start another while it is being looked for."""


def signal_strays(mark: str, groups: Collection[int], kill: bool) -> list[int]:
    """Signal every process whose mark begins with ``mark`` and that is in none of ``groups``; returns their ids.

    Reads the environment of every process of this user: some milliseconds where thousands run.
    """
    found = []
    for pid in _process_ids():
        if not _is_stray(pid, mark, groups):
            continue
        with contextlib.suppress(OSError):  # it ended meanwhile
            handle = os.pidfd_open(pid)
            try:
                # The number could have been given to another process before the handle was there; not after.
                if _is_stray(pid, mark, groups):
                    signal.pidfd_send_signal(handle, signal.SIGKILL if kill else signal.SIGTERM)
                    found.append(pid)
            finally:
                os.close(handle)
    return found


def kill_strays(mark: str, groups: Collection[int]) -> None:
    """End them for good."""
    for _ in range(SWEEPS):
        if not signal_strays(mark, groups, kill=True):
            return


def is_marked(pid: int, mark: str) -> bool:
    """Whether this process runs and its mark begins with ``mark``."""
    wanted = f"{MARK}={mark}".encode()
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - thousands of them: Path costs more than this
            environment = file.read()
    except OSError:
        return False  # gone, or somebody else's
    return environment.startswith(wanted) or b"\0" + wanted in environment


def _process_ids() -> Iterator[int]:
    if not hasattr(os, "pidfd_open"):
        return
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - names only, no Path for each of thousands
    except OSError:
        return
    for name in names:
        if name.isdigit():
            yield int(name)


def _is_stray(pid: int, mark: str, groups: Collection[int]) -> bool:
    if not is_marked(pid, mark):
        return False
    try:
        return os.getpgid(pid) not in groups
    except OSError:
        return False
