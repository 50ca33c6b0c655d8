"""Commands run inside the test's own process: what they printed and how they ended; what tests of servers share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from app.cli import main
from app.demo.script import Hold, Reply, Send

PLUGIN_SLEEPER = """
import os, time
open("pid.tmp", "w").write(str(os.getpid()))
os.rename("pid.tmp", "pid")
time.sleep(600)
"""
"""A plugin that tells its process id and never ends."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def command(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Ended:
    """Run a command to its end."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    printed = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return Ended(ended.value.code, printed.out, printed.err)


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """Run a command that must end with exit code 2; returns its complaint, and there is nothing on stdout."""
    ended = command(capsys, *words)
    assert (ended.code, ended.out) == (2, "")
    return ended.err


def halved(reply: Reply) -> Reply:
    """The reply with a gate in its middle."""
    data = b"".join(step.data for step in reply.steps if isinstance(step, Send))
    middle = len(data) // 2
    return Reply((Send(data[:middle]), Hold(), Send(data[middle:])))
