"""What ``vcp check`` finds in an installation, for the panel of the server that runs in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from app.home.check import check_home
from app.home.checks.findings import Finding, Level, Topic
from app.services.attention import Attention, Kind

MAX_FINDINGS = 200

_KINDS: Mapping[Level, Kind] = MappingProxyType({Level.ERROR: Kind.BAD, Level.WARNING: Kind.WARN})
_PAGES: Mapping[Topic, str] = MappingProxyType(
    {
        Topic.SETTINGS: "config",
        Topic.KEYS: "config",
        Topic.PROMPTS: "agents",
        Topic.PLUGINS: "plugins",
        Topic.FILES: "config",
        Topic.FOLDERS: "",
    }
)


def found_by_check(home: Path, environ: Mapping[str, str]) -> Sequence[Attention]:
    """The errors and warnings of a check, which blocks; its notes are left out."""
    report = check_home(home, environ)
    return [_told(finding) for finding in report.findings if finding.level in _KINDS][:MAX_FINDINGS]


def _told(finding: Finding) -> Attention:
    subject, page = finding.subject, _PAGES[finding.topic]
    place = ", ".join(part for part in (subject, finding.place) if part)
    return Attention(_KINDS[finding.level], finding.chinese, finding.english, page, place)
