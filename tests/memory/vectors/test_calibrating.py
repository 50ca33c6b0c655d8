"""What texts that have nothing in common have in common (memory.md 2.6)."""

from __future__ import annotations

import pytest

from app.memory.embedders.calibration import measured
from app.memory.vectors.tidying import centred, in_ideographs


def test_two_languages_with_means_of_their_own_are_not_a_deviation() -> None:
    """Else no gate of a notebook in Chinese and English would ever open."""
    chinese, english = [0.85, 0.87] * 100, [0.77, 0.79] * 100
    found = measured(centred([chinese, english]))
    assert found is not None
    assert found.mean == pytest.approx(0.82)
    assert found.deviation == pytest.approx(0.01, rel=0.01)
    assert centred([[], []]) == []


def test_texts_are_told_apart_by_their_script() -> None:
    assert in_ideographs("周五和 Luna 一起看 flat")
    assert not in_ideographs("Dinner with 韩子墨 at 栖霞路, shared the bill and walked home the long way")
    assert in_ideographs("")
