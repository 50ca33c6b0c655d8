"""A measurement that is ended leaves no process behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

from tests.plugins.watching import vanishes
from tests.program import ROOT

MEASUREMENT = """
import asyncio
from bench.child import run, started

async def main():
    async with started("-c", "import time; time.sleep(600)") as process:
        print(process.pid, flush=True)
        await asyncio.sleep(600)

run(main())
"""


def test_sigterm_ends_a_measurement_with_its_processes() -> None:
    command = [sys.executable, "-c", MEASUREMENT]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as measurement:
        assert measurement.stdout is not None
        child = int(measurement.stdout.readline())
        measurement.send_signal(signal.SIGTERM)
        assert measurement.wait(30) == 128 + signal.SIGTERM
        asyncio.run(vanishes(child))
