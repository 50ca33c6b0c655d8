"""Runs the calculation in a child process with limits that the system itself enforces.

A signal handler would not do: one multiplication of huge numbers, or a deep recursion in C, never gives Python the
chance to run it. The child's alarm has its default action, so the kernel ends the child wherever it is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

from .failure import CalculatorError
from .limits import MAX_MEMORY_BYTES


def confined(work: Callable[[], bytes], seconds: float, give_up: Callable[[CalculatorError], None]) -> bytes | None:
    """The answer of ``work``, computed within ``seconds`` and the memory limit.

    Raises ``CalculatorError`` when a limit ends the child. Where processes cannot be forked the work runs here, and at
    the time limit ``give_up`` is called and the process ends.
    """
    if not hasattr(os, "fork"):
        return _watched(work, seconds, give_up)
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        _run_child(work, sender, seconds)
    os.close(sender)
    with open(receiver, "rb") as pipe:  # noqa: PTH123 -- a descriptor, not a path
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise _ended_by(os.WTERMSIG(status), seconds)
    return answer


def _run_child(work: Callable[[], bytes], sender: int, seconds: float) -> None:
    """Never returns: the child must not go on in its parent's code."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        _limit_memory()
        answer = work()
        with open(sender, "wb") as pipe:
            pipe.write(answer)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _limit_memory() -> None:
    import resource

    # Systems that do not know this limit refuse it; the server's own limits still hold there.
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _ended_by(number: int, seconds: float) -> CalculatorError:
    if number == signal.SIGALRM:
        return out_of_time(seconds)
    return CalculatorError(
        f"计算进程被信号 {number} 结束，可能是内存用尽；请把算式改小",
        f"the calculation was ended by signal {number}, probably out of memory: make it smaller",
    )


def out_of_time(seconds: float) -> CalculatorError:
    """The error for work that would not end."""
    return CalculatorError(
        f"计算超过 {seconds:g} 秒，已停止；请简化算式或分步计算",
        f"the calculation took over {seconds:g} s and was stopped: simplify it or calculate in steps",
    )


def _watched(work: Callable[[], bytes], seconds: float, give_up: Callable[[CalculatorError], None]) -> bytes:
    def end() -> None:
        give_up(out_of_time(seconds))
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        return work()
    finally:
        timer.cancel()
