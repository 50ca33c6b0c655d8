"""The measurement of calls over a node runs from end to end. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_tiny_run_tells_all_figures(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench.node_calls", "--calls", "64", "--repeats", "1", "--json", str(figures)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(figures.read_text("utf-8"))
    assert len(told) == 12
    assert all(name in done.stdout for name in told)
    assert all(told[f"{in_flight} in flight, p50: {side}"] > 0 for in_flight in (1, 64) for side in ("echo", "node"))
