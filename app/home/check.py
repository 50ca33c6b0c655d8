"""The whole check of an installation: read only, so that it may be used on an old one before anything is moved."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from app.config import families, settings
from app.config.dotenv import parse_values
from app.config.program_files import program_plugins
from app.config.snapshot import CONFIG_FILE, Config, load
from app.errors import ConfigError
from app.home.checks.approvals import check_approvals
from app.home.checks.connections import check_connections
from app.home.checks.files import check_files
from app.home.checks.findings import Finding, Installation, Level, Topic
from app.home.checks.folders import FolderCount, check_folders, count_folders
from app.home.checks.keys import check_keys
from app.home.checks.mcp_servers import check_mcp_servers
from app.home.checks.memory import check_memory, memory_parts
from app.home.checks.plugins import PluginState, check_plugins
from app.home.checks.prompts import check_prompts
from app.home.checks.settings import check_settings
from app.home.checks.tool_groups import check_tool_groups
from app.home.lock import Owner, owner_of
from app.plugins.discovery import discover

_ORDER = {level: place for place, level in enumerate(Level)}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that was found. ``findings`` are in the order of topics, the worst first."""

    home: Path
    owner: Owner | None
    findings: tuple[Finding, ...]
    plugins: tuple[PluginState, ...]
    folders: tuple[FolderCount, ...]
    memory: tuple[str, ...] = ()
    """What memory works with, one line for each part."""

    def count(self, level: Level) -> int:
        """How many findings of this level there are."""
        return Counter(finding.level for finding in self.findings)[level]


def check_home(home: Path, environ: Mapping[str, str]) -> CheckReport:
    """Look at everything in ``home`` under a process environment. Nothing is made, changed or started."""
    home = home.absolute()
    findings: list[Finding] = []
    try:
        config = load(home, environ)
    except ConfigError as error:
        chinese, _, english = error.message.partition(" / ")
        findings.append(Finding(Level.ERROR, Topic.SETTINGS, chinese, english or chinese, CONFIG_FILE))
        config = _without_file(home, environ)
    installation = Installation(config, environ)
    found = discover(
        (home / "Plugin", program_plugins()),
        parse_values,
        search_path=config.environ.get("PATH", os.defpath),
    )
    plugins = check_plugins(installation, found)
    findings += check_settings(installation)
    findings += check_keys(installation, found)
    findings += check_connections(installation, found)
    findings += check_prompts(installation, plugins)
    findings += plugins.findings
    findings += check_files(installation, plugins)
    findings += check_approvals(installation, plugins)
    findings += check_tool_groups(installation, plugins)
    findings += check_mcp_servers(installation)
    findings += check_memory(installation)
    findings += check_folders(installation)
    topics = {topic: place for place, topic in enumerate(Topic)}
    findings.sort(key=lambda finding: (topics[finding.topic], _ORDER[finding.level]))
    return CheckReport(
        home, owner_of(home), tuple(findings), plugins.states, count_folders(installation), memory_parts(installation)
    )


def _without_file(home: Path, environ: Mapping[str, str]) -> Config:
    """The configuration of a home whose ``config.env`` cannot be read, so that the rest can be looked at."""
    values, _ = settings.read(environ)
    rules, _ = families.collect(environ)
    return Config(
        home=home,
        settings=values,
        environ=MappingProxyType(dict(environ)),
        file_keys=frozenset(),
        families=rules,
        problems=(),
    )
