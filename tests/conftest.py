"""Property tests: no time limits, for a slow example on a busy machine is no failure; the same examples at each run.

``HYPOTHESIS_RANDOM=1`` looks for new ones.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="HYPOTHESIS_RANDOM" not in os.environ,
)
settings.load_profile("untimed")
