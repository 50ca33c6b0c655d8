"""The same program anew in the same process: what ``POST /server/restart`` leads to (D87).

``exec`` keeps the process id, the terminal and whoever waits for the process; everything else begins anew. The lock on
the home is handed on, so that nobody comes in between, and with ``--port 0`` so is the port.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

from app.home.lock import Ownership

VARIABLE = "VCP_STARTED_AGAIN"
"""Names, for the program's next start alone: the process, the descriptor of its lock (-1: none), its port."""

MAX_REAPED = 10_000


@dataclass(frozen=True, slots=True)
class HandedOn:
    """What the start before this one has left: the descriptor of its lock, or None, and its port, or 0."""

    lock: int | None = None
    port: int = 0


def handed_on(environ: MutableMapping[str, str], pid: int) -> HandedOn:
    """What this start takes over; the variable is taken away, so that no child of ours sees it.

    What another process was told, or nobody wrote like this, is nothing.
    """
    words = environ.pop(VARIABLE, "").split(":")
    try:
        process, lock, port = map(int, words)
    except ValueError:
        return HandedOn()
    if process != pid:
        return HandedOn()
    return HandedOn(lock if lock >= 0 else None, port if 0 < port <= 65_535 else 0)


def can_start_again() -> bool:
    """Whether this system lets a process become another program; on Windows that would be another process."""
    return sys.platform != "win32" and bool(sys.executable)


def start_again(ownership: Ownership, environ: Mapping[str, str]) -> NoReturn:
    """Become the same command anew. Everything has ended but this function; raises OSError when it cannot be."""
    port = urlsplit(ownership.address).port or 0
    ownership.tell("")
    lock = ownership.handed_on()
    _reap()
    for handler in logging.getLogger().handlers:
        handler.flush()
    logging.shutdown()  # the log on disk is complete; the next start has one of its own
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # whoever read them has gone
            stream.flush()
    told = {VARIABLE: f"{os.getpid()}:{-1 if lock is None else lock}:{port}"}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**environ, **told})


def _reap() -> None:
    """Let go of children that have ended and that nobody waited for; the next start would not know them."""
    with contextlib.suppress(ChildProcessError):
        for _ in range(MAX_REAPED):
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
