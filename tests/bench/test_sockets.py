"""The measurement of WebSockets runs from end to end. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_tiny_run_tells_all_figures(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench.sockets", "--tiny", "--json", str(figures)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(figures.read_text("utf-8"))["figures"]
    assert told["clients"] == 20
    assert told["dropped clients"] == 0
    assert all(name in done.stdout for name in told)
    assert told["stop with all clients, s"] > 0
    assert told["until the last client has it, ms"] > 0
