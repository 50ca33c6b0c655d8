"""The measurement of traces runs from end to end; how quick it is, is not judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.traces import PAGES, main


def test_a_small_run_tells_all_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    main(["--traces", "120", "--repeats", "1", "--json", str(file)])
    told = json.loads(file.read_text("utf-8"))
    printed = capsys.readouterr().out
    assert list(told) == list(PAGES) and all(label in printed and spent > 0 for label, spent in told.items())
