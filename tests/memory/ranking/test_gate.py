"""What the nearest fragment of a young notebook is worth at its gate (memory.md 2.6)."""

from __future__ import annotations

import pytest

from app.memory.embedders.calibration import STEP
from app.memory.ranking.gate import ORDINARY_FRAGMENTS, gain_of_few


def test_the_nearest_of_few_fragments_gains_what_chance_gives_to_many() -> None:
    """One deviation for ten fragments, a third of one for 60, none from 125 on."""
    assert gain_of_few(10) == pytest.approx(STEP * 0.96, abs=0.001)
    assert gain_of_few(60) == pytest.approx(STEP * 0.25, abs=0.001)
    assert gain_of_few(ORDINARY_FRAGMENTS) == gain_of_few(10**6) == 0.0
    assert gain_of_few(0) == gain_of_few(1) == pytest.approx(STEP * 3.107, abs=0.001)


def test_the_gain_never_grows_with_the_notebook() -> None:
    gains = [gain_of_few(count) for count in range(1, 300)]
    assert gains == sorted(gains, reverse=True)
