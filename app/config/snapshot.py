"""The configuration at one moment: immutable, read whole, replaced whole. A turn keeps the one it began with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from zoneinfo import ZoneInfo

from app.config import dotenv, families, settings, upstreams
from app.config.families import Families
from app.config.problem import Complaint, Problem
from app.config.settings import Settings
from app.config.upstreams import NamedUpstream

__all__ = ["CONFIG_FILE", "Config", "Problem", "load"]

CONFIG_FILE = "config.env"


@dataclass(frozen=True, slots=True)
class Config:
    """All configuration of one installation.

    ``home`` is the absolute installation root. ``environ`` holds every variable in its meaningful order, those of the
    operating system first, then those of ``config.env``; child processes inherit it (spec 5.4), so it holds secrets.
    ``file_keys`` are the keys that ``config.env`` mentions, also where the operating system's value won. ``upstreams``
    are the model APIs beside that of ``API_URL``.
    """

    home: Path
    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    file_keys: frozenset[str]
    families: Families = field(repr=False)
    problems: tuple[Problem, ...]
    upstreams: tuple[NamedUpstream, ...] = ()

    @property
    def has_model_api(self) -> bool:
        """True when there is a model API to ask: that of ``API_URL``, or a named one."""
        return bool(self.settings.api_url or self.upstreams)

    @property
    def zone(self) -> ZoneInfo:
        """The zone of logs, schedules and diaries (``DEFAULT_TIMEZONE``)."""
        return ZoneInfo(self.settings.default_timezone)

    @property
    def report_zone(self) -> ZoneInfo:
        """The zone of dates and times in prompts: ``REPORT_TIMEZONE``, else :attr:`zone` (B31, B45)."""
        return ZoneInfo(self.settings.report_timezone or self.settings.default_timezone)


def load(home: Path, process_environ: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Config:
    """Read ``config.env`` of ``home`` (it may be missing) under the process environment and the command line.

    A variable that the process environment has, even a blank one, wins over the file (2.1) and keeps its place;
    ``overrides`` (options of the command line) win over both. Values that cannot be used are told in ``problems``.

    Raises ConfigError if the file exists but cannot be read.
    """
    overrides = overrides or {}
    home = home.absolute()
    path = home / CONFIG_FILE
    file = dotenv.read(path)
    written = file.values()
    lines = file.lines()
    problems = list(file.problems)
    # Neither the operating system nor any child process can be given a value with a NUL in it.
    for key in [key for key, value in written.items() if "\0" in value]:
        del written[key]
        problems.append(Problem(str(path), lines[key], key, "is left out: the value holds a NUL character"))
    environ = {**written, **process_environ, **overrides}
    # A dict keeps a key where it first came in, so the order is laid down apart from the values.
    order = dict.fromkeys((*process_environ, *written, *overrides))
    ordered = {key: environ[key] for key in order}
    file_keys = frozenset(written)
    values, value_complaints = settings.read(ordered, file_keys)
    rules, rule_complaints = families.collect(ordered)
    named, upstream_complaints = upstreams.collect(ordered, file_keys)

    def located(complaint: Complaint) -> Problem:
        if complaint.key in overrides:
            return Problem("command line", None, complaint.key, complaint.reason)
        if complaint.key in process_environ:
            return Problem("environment", None, complaint.key, complaint.reason)
        return Problem(str(path), lines.get(complaint.key), complaint.key, complaint.reason)

    problems += map(located, (*value_complaints, *rule_complaints, *upstream_complaints))
    problems.sort(key=lambda problem: problem.line or 0)
    return Config(
        home=home,
        settings=values,
        environ=MappingProxyType(ordered),
        file_keys=file_keys,
        families=rules,
        problems=tuple(problems),
        upstreams=named,
    )
