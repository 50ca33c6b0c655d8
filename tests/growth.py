"""Whether work grows in proportion to its input. A ratio of processor times of one run: no clock is judged."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES = 16
MOST = 100
"""Square growth would cost 256 times as much."""

LEAST_SECONDS = 0.005
"""Less cannot be told from noise."""


def grows_in_proportion(work: Callable[[int], object], size: int) -> bool:
    """Whether work of sixteen times the size costs at most a hundred times as much."""

    def seconds(of: int) -> float:
        began = time.process_time()
        work(of)
        return time.process_time() - began

    return seconds(TIMES * size) <= MOST * max(seconds(size), LEAST_SECONDS)
