"""How the suite runs.

Property tests have no time limits, for a slow example on a busy machine is no failure, and the same examples at each
run; ``HYPOTHESIS_RANDOM=1`` looks for new ones. What a test logs may hold anything and still reaches other processes.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="HYPOTHESIS_RANDOM" not in os.environ,
)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Spare each garbage collection the sight of thousands of tests and of the modules, which live until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def log_of_its_own() -> Iterator[None]:
    """A command that runs inside a test sets up the log of the whole process; the next test begins without that."""
    root = logging.getLogger()
    level, source, threads, processes = root.level, logging._srcfile, logging.logThreads, logging.logProcesses
    yield
    root.setLevel(level)
    logging._srcfile, logging.logThreads, logging.logProcesses = source, threads, processes


def printable(value: Any) -> Any:
    """The same report without halves of surrogate pairs, which no process can send to another."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(printable, value))
    return value


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """Let a report with a logged half of a surrogate pair reach the process that prints it."""
    data = yield
    return None if data is None else {key: printable(value) for key, value in data.items()}
