"""What a cosine means under a model: gate values of equal meaning for all of them (memory.md 2.6, 8.2). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from app.memory.embedders.embedder import Calibration

NEUTRAL = Calibration(0.3, 0.1)
"""Of models that nobody has measured: under it the calibrated value is the cosine itself."""

ANCHOR = 0.6
"""The gate value of a cosine that lies ``ANCHOR_DEVIATIONS`` above that of unrelated texts."""
ANCHOR_DEVIATIONS = 3.0
STEP = 0.1
"""What one deviation is worth."""

SMALLEST_DEVIATION = 0.005
"""Below it a set of texts is too uniform to tell anything, such as many copies of one."""
FEWEST_PAIRS = 50


def calibrated(cosine: float, calibration: Calibration) -> float:
    """The gate value of a cosine, 0..1: 0.6 for three deviations above chance, 0.1 for each one more or less (2.6)."""
    if not math.isfinite(cosine):
        return 0.0
    deviations = (cosine - calibration.mean) / max(calibration.deviation, SMALLEST_DEVIATION)
    return min(1.0, max(0.0, ANCHOR + STEP * (deviations - ANCHOR_DEVIATIONS)))


def raw(value: float, calibration: Calibration) -> float:
    """The cosine that has this gate value: the inverse of ``calibrated`` between 0 and 1."""
    deviation = max(calibration.deviation, SMALLEST_DEVIATION)
    return calibration.mean + deviation * (ANCHOR_DEVIATIONS + (value - ANCHOR) / STEP)


def measured(cosines: Iterable[float]) -> Calibration | None:
    """The calibration that these cosines of unrelated texts show; None for fewer than ``FEWEST_PAIRS``."""
    values = [value for value in cosines if math.isfinite(value)]
    if len(values) < FEWEST_PAIRS:
        return None
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Calibration(mean, max(math.sqrt(variance), SMALLEST_DEVIATION))
