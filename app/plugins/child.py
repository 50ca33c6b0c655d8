"""One child process: started in a session of its own, fed, read all the time, ended as a whole group.

The leader's exit is learned without reaping it: while it is a zombie its process id, and so the number of its group,
cannot be given to anybody else, and the group can be signalled safely. ``reap`` comes last.

POSIX reads the pipes from the event loop. Where that does not exist (``threads``), one thread per pipe does it, the
exit is awaited by a thread too, and where there are no process groups only the process itself can be ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from app.plugins.strays import MARK

READ_BYTES = 256 * 1024
STDERR_KEPT_BYTES = 16 * 1024
DRAIN_BYTES = 1024 * 1024
"""Most that a pipe holds on any common system, so all that an ended process can have left in it."""
SETTLE_SECONDS = 0.5
"""How long ends that belong together (both pipes, the process, its helpers) may lie apart."""
REAP_SECONDS = 2.0
"""How long a process may take to vanish after SIGKILL before its reaping is left to the exit watcher."""

_POSIX = hasattr(os, "killpg")


class Child:
    """A running child. All methods belong to the event loop's thread.

    ``spoke`` is done at the first output or exit, ``exited`` when the leader has ended, ``closed`` when both output
    pipes are at their end, ``flooded`` when more than ``output_limit`` bytes came, ``done_with`` when whoever ran the
    child has ended or left it. ``more`` is done at the first standard output since the last ``listen``.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        stdin: bytes,
        output_limit: int,
        mark: str = "",
        threads: bool = not _POSIX,
    ) -> None:
        """Start the process; raises OSError when it cannot be started. ``mark`` is what its strays are known by.

        The start itself blocks for the millisecond that fork and exec take: done in a thread it could outlive a
        cancelled call.
        """
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self._limit = output_limit
        self._pidfd: int | None = None
        self._input = memoryview(stdin)
        self._received = 0
        self.mark = mark
        self._discarding = False
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.spoke: asyncio.Future[None] = self._loop.create_future()
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.flooded: asyncio.Future[None] = self._loop.create_future()
        self.done_with: asyncio.Future[None] = self._loop.create_future()
        self.more: asyncio.Future[None] = self._loop.create_future()
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**environment, MARK: mark} if mark else dict(environment),
            bufsize=0,
            start_new_session=True,
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._stdin, self._stdout, self._stderr = (pipe.fileno() if pipe else -1 for pipe in pipes)
        self._open = {self._stdout, self._stderr}
        self._watch_exit()
        if threads:
            self._use_threads()
        else:
            self._use_loop()

    @property
    def pid(self) -> int:
        """The process id, which is also the number of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code once reaped; negative for a signal."""
        return self._process.returncode

    # --- pipes -------------------------------------------------------------------------------------------------------

    def _use_loop(self) -> None:
        for descriptor in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._loop.add_reader(self._stdout, self._readable, self._stdout)
        self._loop.add_reader(self._stderr, self._readable, self._stderr)
        if self._input:
            self._loop.add_writer(self._stdin, self._writable)
        else:
            self._close_stdin()

    def _writable(self) -> None:
        try:
            written = os.write(self._stdin, self._input)
        except BlockingIOError:
            return
        except OSError:
            # The child closed its stdin or is gone. Whether that is a fault shows in what it answers.
            self._close_stdin()
            return
        self._input = self._input[written:]
        if not self._input:
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            if not self._threads:
                self._loop.remove_writer(self._stdin)
            self._process.stdin.close()

    def _readable(self, descriptor: int) -> bool:
        """Read once; False when there is nothing to read now."""
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._take(descriptor, data)
        return bool(data)

    def _take(self, descriptor: int, data: bytes) -> None:
        if descriptor not in self._open:
            return
        if not data:
            self._close_output(descriptor)
            return
        _settle(self.spoke)
        self._received += len(data)
        if self._discarding:
            return
        if self._received > self._limit:
            _settle(self.flooded)
        elif descriptor == self._stdout:
            self.stdout += data
            _settle(self.more)
        else:
            self.stderr += data
            del self.stderr[:-STDERR_KEPT_BYTES]

    def _close_output(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        if not self._threads:
            self._loop.remove_reader(descriptor)
            pipe = self._process.stdout if descriptor == self._stdout else self._process.stderr
            if pipe is not None:
                pipe.close()
        if not self._open:
            _settle(self.closed)

    def listen(self) -> None:
        """Tell by ``more`` of what comes from now on."""
        if self.more.done():
            self.more = self._loop.create_future()

    async def drain(self) -> None:
        """Take what the ended leader left in the pipes, and no more than that (D15)."""
        if self._threads:
            await asyncio.wait({self.closed}, timeout=SETTLE_SECONDS)
            return
        for descriptor in tuple(self._open):
            end = self._received + DRAIN_BYTES
            while descriptor in self._open and self._received < end and self._readable(descriptor):
                pass

    def discard(self) -> None:
        """Go on reading and forget it: a helper that still writes must not meet a broken pipe (D41).

        The helper may live for ever, so what was read and what was left to write is let go.
        """
        self._discarding = True
        self._close_stdin()
        self._input = memoryview(b"")
        self.stdout = bytearray()

    def close_pipes(self) -> None:
        """Let go of the pipes, whoever else holds them."""
        self._close_stdin()
        for descriptor in tuple(self._open):
            self._close_output(descriptor)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _watch_exit(self) -> None:
        if not self._threads and hasattr(os, "pidfd_open"):
            try:
                self._pidfd = os.pidfd_open(self.pid)
            except OSError:
                self._pidfd = None  # an old kernel or a sandbox: a thread does it
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._on_exit)
        else:
            threading.Thread(target=self._await_exit, name=f"plugin-exit-{self.pid}", daemon=True).start()

    def _await_exit(self) -> None:
        if hasattr(os, "waitid"):
            # No child any more: it was reaped in the hurry of a closing loop.
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        self._from_thread(self._on_exit)

    def _on_exit(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        _settle(self.spoke)
        _settle(self.exited)

    def signal(self, kill: bool) -> None:
        """Ask the whole group to end, or make it. Only before ``reap``."""
        if self._process.returncode is not None:
            return
        if not _POSIX:
            self._process.kill() if kill else self._process.terminate()
            return
        try:
            os.killpg(self.pid, signal.SIGKILL if kill else signal.SIGTERM)
        except ProcessLookupError:
            return  # all of them are gone
        except PermissionError:
            # Some systems say this of a group in which only the zombie is left.
            if not self.exited.done():
                self._process.kill()

    def reap(self) -> None:
        """Collect the exit status of an ended leader."""
        self._process.poll()

    def reap_now(self) -> bool:
        """Collect the exit status after SIGKILL, waiting a moment for it; for a loop that is being torn down."""
        try:
            self._process.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        self._on_exit()
        return True

    # --- threads -----------------------------------------------------------------------------------------------------

    def _use_threads(self) -> None:
        for target, argument in ((self._write_all, None), (self._read_all, 1), (self._read_all, 2)):
            threading.Thread(target=target, args=(argument,), name=f"plugin-pipe-{self.pid}", daemon=True).start()

    def _write_all(self, _: int | None) -> None:
        stdin = self._process.stdin
        if stdin is None:
            return
        try:
            while self._input:
                self._input = self._input[stdin.write(self._input) or 0 :]
            stdin.close()
        except (OSError, ValueError):
            return  # the child closed its end, or we let go of ours

    def _read_all(self, which: int | None) -> None:
        pipe = self._process.stdout if which == 1 else self._process.stderr
        descriptor = self._stdout if which == 1 else self._stderr
        if pipe is None:
            return
        with pipe:
            data = b"."
            while data:
                data = pipe.read(READ_BYTES) or b""
                self._from_thread(self._take, descriptor, data)

    def _from_thread(self, callback: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            return  # the loop was closed: nobody waits for this process any more


def group_lives(group: int) -> bool:
    """Whether processes are left of a group whose leader has been reaped.

    While they are, the system gives the group's number to no new process; so a process that has this number proves that
    the group is gone.
    """
    if not _POSIX:
        return False
    try:
        os.kill(group, 0)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    else:
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return group_members(group, unknown=True)


def group_members(group: int, *, unknown: bool) -> bool:
    """Whether a group has members that still run; ``unknown`` where the system does not say.

    Ended ones that wait for an init process that does not reap (containers) do not count.
    """
    try:
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return unknown
    for entry in entries:
        try:
            state, _, member_of = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it ended meanwhile
        if int(member_of) == group and state not in (b"Z", b"X"):
            return True
    return False


def signal_group(group: int, kill: bool) -> None:
    """Signal what is left of a group whose leader has been reaped."""
    if group_lives(group):
        # Gone between the question and the signal, or not ours to end any more.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL if kill else signal.SIGTERM)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
