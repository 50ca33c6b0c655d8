"""The settings of the prompt engine: an immutable value that the composition root makes from the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import tzinfo
from zoneinfo import ZoneInfo

from app.config.families import DetectorRule, SarRule
from app.prompt.limits import PromptLimits


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """What the engine needs to know.

    ``variables`` are the ``Tar*`` and ``Var*`` keys in environment order, which decides what a variable's text may
    refer to (3.2). ``zone`` is that of ``{{Date}}`` and the like (``REPORT_TIMEZONE``, B45). ``{{Port}}`` and
    ``{{Image_Key}}`` stay as written where ``port`` is None or ``image_key`` empty. With ``detectors_last`` detectors
    run after the preprocessors (3.12, profile ``head``).
    """

    variables: tuple[tuple[str, str], ...] = ()
    sar: tuple[SarRule, ...] = ()
    detectors: tuple[DetectorRule, ...] = ()
    super_detectors: tuple[DetectorRule, ...] = ()
    zone: tzinfo = field(default_factory=lambda: ZoneInfo("Asia/Shanghai"))
    port: int | None = None
    image_key: str = ""
    expand_agents_in_all_roles: bool = False
    resolve_variables_in_any_order: bool = False
    detectors_last: bool = False
    limits: PromptLimits = field(default_factory=PromptLimits)
