"""This machine and our own processes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

from app.observe.machine import Machine


def test_the_machine_tells_memory_and_processor_of_all_and_of_us() -> None:
    now = Machine().now()
    assert now.total > now.used > 0
    assert now.free > 0
    assert now.resident > now.private >= 0
    assert 0 <= now.processor <= 100


def test_children_are_told_with_us_and_percent_is_of_the_time_since_the_last_look() -> None:
    clock = itertools.count(10**9, 5)
    machine = Machine(lambda: next(clock))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = {one.pid: one for one in machine.processes()}
        assert {os.getpid(), child.pid} <= found.keys()
        assert found[child.pid].resident > 0
        again = {one.pid: one for one in machine.processes()}
        assert again[os.getpid()].processor >= 0
    finally:
        child.communicate()
    assert child.pid not in {one.pid for one in machine.processes()}


def test_who_asks_again_at_once_gets_the_same_reading() -> None:
    """A percentage of a few milliseconds would be noise."""
    moment = [1000.0]
    machine = Machine(lambda: moment[0])
    first, processes = machine.now(), machine.processes()
    assert machine.now() is first
    assert machine.processes() is processes
    moment[0] += 3
    assert machine.now() is not first
    moment[0] = 0.0  # the clock was set back
    assert machine.processes() is not processes
