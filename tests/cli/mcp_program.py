"""``vcp mcp`` as a client sees it: a process that is spoken to in raw frames over its pipes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tests.mcp.stdio.wires import initialize, notification
from tests.program import LONGEST, VCP, environment


class McpProgram:
    """One process; ``raw`` is all that it has written so far."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in: BinaryIO = process.stdin  # type: ignore[assignment]
        self._out: BinaryIO = process.stdout  # type: ignore[assignment]
        self._errors = errors
        self.raw = b""

    @property
    def errors(self) -> str:
        """What it has written to stderr."""
        return self._errors.read_text(encoding="utf-8")

    def send(self, *frames: Any) -> None:
        for frame in frames:
            self._in.write(frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b"\n")
        self._in.flush()

    def next(self) -> Any:
        """The next frame; None at the end."""
        line = self._out.readline()
        self.raw += line
        return json.loads(line) if line else None

    def answer(self, id: Any) -> Any:
        """The answer to a request; what comes before it is passed over."""
        while (frame := self.next()) is not None:
            if frame.get("id") == id and "method" not in frame:
                return frame
        raise AssertionError(f"no answer to {id}; stderr:\n{self.errors}")

    def ask(self, frame: Any) -> Any:
        self.send(frame)
        return self.answer(frame["id"])

    def begin(self, version: str = "2025-11-25") -> Any:
        """Initialize; the result."""
        answer = self.ask(initialize(version=version))
        assert "result" in answer, answer
        result = answer["result"]
        self.send(notification("notifications/initialized"))
        return result

    def end(self) -> tuple[int, list[Any]]:
        """End its input; the exit code, and the frames that still came."""
        self._in.close()
        return self.rest()

    def signalled(self, number: signal.Signals) -> tuple[int, list[Any]]:
        """The same with a signal in place of the end of input."""
        self.process.send_signal(number)
        return self.rest()

    def rest(self) -> tuple[int, list[Any]]:
        frames = []
        while (frame := self.next()) is not None:
            frames.append(frame)
        return self.process.wait(LONGEST), frames


@contextmanager
def mcp(
    *words: str | Path,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    command: Sequence[str] = (*VCP, "mcp"),
) -> Iterator[McpProgram]:
    """The program, which is gone at the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "stderr"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                (*command, *map(str, words)),
                cwd=cwd,
                env=environment(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        guard = threading.Timer(LONGEST, process.kill)
        guard.start()
        try:
            yield McpProgram(process, errors)
        except BaseException:
            sys.stderr.write(errors.read_text(encoding="utf-8", errors="replace"))
            raise
        finally:
            guard.cancel()
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()
