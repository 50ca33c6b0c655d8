"""``pytest -p bench.loop_steps``: the longest steps of event loops while tests run, in processor time.

A figure, not a test: it depends on the machine and on what else shares its caches.
"""

from __future__ import annotations

import time
from asyncio.events import Handle

import pytest

LONGEST = 5

_spent: list[float] = []
_really = Handle._run  # type: ignore[attr-defined]


def _measured(handle: Handle) -> None:
    begun = time.thread_time()
    _really(handle)
    _spent.append(time.thread_time() - begun)
    if len(_spent) > 10_000:
        _spent[:] = sorted(_spent)[-LONGEST:]


def pytest_configure() -> None:
    """Measure each step from now on."""
    Handle._run = _measured  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell the longest ones."""
    longest = ", ".join(f"{1000 * spent:.0f}" for spent in sorted(_spent)[-LONGEST:][::-1])
    terminalreporter.write_line(f"longest steps of the event loop: {longest} ms of processor time")
