"""The measurement of the panel runs from end to end; how quick it is, is not judged."""

from __future__ import annotations

import re

import pytest

from bench.panel import main


def test_a_small_run_measures_every_page_once(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--traces", "2", "--notes", "10", "--plugins", "1", "--repeats", "1"])
    pages = re.findall(r"KiB {2}/AdminPanel/(\S*)", capsys.readouterr().out)
    assert len(pages) == len(set(pages)) > 40
    assert {"", "plugins/Tool000", "notebooks/日记0", "trace/bench-0", "config", "search?q=Tool"} <= set(pages)
