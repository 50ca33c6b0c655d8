"""A home and what the check finds in it, for tests of single checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.home.check import CheckReport, check_home
from app.home.checks.findings import Finding, Level, Topic
from tests.home.installations import write

ENVIRON = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def looked_at(home: Path, *lines: str, environ: Mapping[str, str] | None = None) -> CheckReport:
    """The check of a home whose ``config.env`` has these lines."""
    if lines:
        write(home, "config.env", "\n".join(lines) + "\n").chmod(0o600)
    return check_home(home, {**ENVIRON, **(environ or {})})


def about(report: CheckReport, topic: Topic, *levels: Level) -> list[Finding]:
    """The findings of a topic, those of some levels only if they are named."""
    return [found for found in report.findings if found.topic is topic and (not levels or found.level in levels)]


def told(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """Level, place and subject of each."""
    return [(found.level.value, found.place, found.subject) for found in findings]
