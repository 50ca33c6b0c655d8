"""The program as a process of its own, started as a person starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
VCP = (sys.executable, "-W", "error", "-m", "app.cli")

LONGEST = 60
"""Seconds after which a program that hangs is killed; the test then fails by what is missing."""

ALL_TESTS = 10 * LONGEST
"""The same for one that has started: it may serve all tests of a file, on a machine that is busy with others."""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a bare shell gives to a program, and the place of our source."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **(more or {})}


def vcp(*words: str, cwd: Path, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        (*VCP, *words),
        cwd=cwd,
        env=environment(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST,
    )


@dataclass(slots=True)
class Program:
    """A server that runs; ``banner`` is what it printed up to now, ``log`` the file of its stderr."""

    process: subprocess.Popen[str]
    banner: str
    log: Path

    @property
    def lines(self) -> list[str]:
        return [line.strip() for line in self.banner.splitlines() if line.strip()]

    def told(self, label: str) -> str:
        """The last word of the banner's line that begins with ``label``."""
        return next(line for line in self.lines if line.startswith(label)).split()[-1]

    @property
    def base_url(self) -> str:
        return self.told("base URL")

    @property
    def key(self) -> str:
        return self.told("key")

    @property
    def logged(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end; what was still printed is added to ``banner``."""
        rest, _ = self.process.communicate(timeout=LONGEST)
        self.banner += rest
        return self.process.returncode


@contextmanager
def started(
    *words: str,
    cwd: Path,
    last_line: str = "curl ",
    environ: Mapping[str, str] | None = None,
    longest: float = ALL_TESTS,
) -> Iterator[Program]:
    """A command that goes on running; it is ready once it has printed a line that begins with ``last_line``.

    Whatever happens the process is gone at the end of the block, and after ``longest`` seconds; or after LONGEST when
    it was not ready by then.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr"
        with log.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                (*VCP, *words),
                cwd=cwd,
                env=environment(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding="utf-8",
            )
        guards = [threading.Timer(seconds, process.kill) for seconds in (LONGEST, longest)]
        for guard in guards:
            guard.start()
        try:
            assert process.stdout is not None
            banner = read_until(process.stdout, last_line)
            assert last_line in banner, f"{words} ended early:\n{banner}\n{log.read_text(encoding='utf-8')}"
            guards[0].cancel()
            yield Program(process, banner, log)
        finally:
            for guard in guards:
                guard.cancel()
            process.kill()
            process.communicate()


def read_until(stream: IO[str], last_line: str) -> str:
    """The stream's lines up to the one that begins with ``last_line``, or all of them."""
    read = ""
    for line in stream:
        read += line
        if line.strip().startswith(last_line):
            break
    return read
