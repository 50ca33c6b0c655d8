"""This machine and our own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.observe.machine import Machine, disk_of


def test_the_machine_tells_memory_and_processor_of_all_and_of_us() -> None:
    now = Machine().now()
    assert now.total > now.used > 0
    assert now.free > 0
    assert now.resident > now.private >= 0
    assert 0 <= now.processor <= 100


def test_children_are_told_with_us_and_percent_is_of_the_time_since_the_last_look() -> None:
    clock = iter(float(second) for second in range(10**9, 10**9 + 100))
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


def test_a_disk_tells_its_size_and_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    assert disk.total >= disk.free > 0
    with pytest.raises(OSError):
        disk_of(tmp_path / "missing")
