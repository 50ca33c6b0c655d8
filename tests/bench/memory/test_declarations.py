"""The way of a declaration through a server with notes is measured whole: everything is found, no cache answers."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.memory.beside import Lateness
from bench.memory.declarations import FORMS, measure


def test_a_tiny_home_gives_all_figures() -> None:
    told: dict[str, Any] = asyncio.run(measure(24, questions=2, edits=1))
    assert set(told["forms"]) == set(FORMS)
    assert all(form["filled"] == 1.0 and form["cpu_p50"] > 0 for form in told["forms"].values())
    assert 0 < told["edit"]["words_p50"] <= told["edit"]["words_and_vector_p50"]


def test_lateness_is_told_in_milliseconds() -> None:
    assert Lateness([0.001, 0.002, 0.009]).told() == {"pieces": 3, "p50": 2.0, "p99": 8.86, "max": 9.0}
    assert Lateness().told()["pieces"] == 0
