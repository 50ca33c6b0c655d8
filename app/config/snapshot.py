"""The configuration at one moment: immutable, read whole, replaced whole. A turn keeps the one it began with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from zoneinfo import ZoneInfo

from app.config import dotenv, families, settings, upstreams
from app.config.dotenv import Entry, EnvFile
from app.config.families import Families
from app.config.home_folders import notebooks_folder
from app.config.problem import Complaint, Problem
from app.config.settings import NEEDS_RESTART, Settings
from app.config.upstreams import NamedUpstream

__all__ = ["CONFIG_FILE", "Config", "Problem", "doubt", "load", "until_restart"]

CONFIG_FILE = "config.env"


@dataclass(frozen=True, slots=True)
class Config:
    """All configuration of one installation.

    ``home`` is the absolute installation root. ``environ`` holds every variable in its meaningful order, those of the
    operating system first, then those of ``config.env``; child processes inherit it (spec 5.4), so it holds secrets.
    ``file_keys`` are the keys that ``config.env`` mentions, also where the operating system's value won. ``upstreams``
    are the model APIs beside that of ``API_URL``; ``unclosed`` are assignments in the file whose quotes do not close;
    ``outside`` are the keys that the operating system or the command line sets.
    A command that serves only some plugins names them in ``only_plugins``, and in ``plugin_folder`` where they are
    looked for in place of the home's ``Plugin/``.
    """

    home: Path
    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    file_keys: frozenset[str]
    families: Families = field(repr=False)
    problems: tuple[Problem, ...]
    unclosed: tuple[Entry, ...] = field(default=(), repr=False)
    upstreams: tuple[NamedUpstream, ...] = ()
    outside: frozenset[str] = frozenset()
    only_plugins: frozenset[str] | None = None
    plugin_folder: Path | None = None

    @property
    def has_model_api(self) -> bool:
        """True when there is a model API to ask: that of ``API_URL``, or a named one."""
        return bool(self.settings.api_url or self.upstreams)

    @property
    def notebooks(self) -> Path:
        """The folder of the notebooks, absolute."""
        return notebooks_folder(self.home, self.settings.knowledgebase_root_path)

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
    home = home.absolute()
    return of_file(home, dotenv.read(home / CONFIG_FILE), process_environ, overrides)


def of_file(
    home: Path, file: EnvFile, process_environ: Mapping[str, str], overrides: Mapping[str, str] | None = None
) -> Config:
    """The configuration of an absolute ``home`` whose ``config.env`` were this file; see :func:`load`. Pure."""
    overrides = overrides or {}
    path = home / CONFIG_FILE
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
        outside=frozenset((*process_environ, *overrides)),
        unclosed=tuple(entry for entry in file.entries if not entry.closed),
    )


def doubt(now: Config, before: Config) -> Problem | None:
    """Why what was just read may be a file in the middle of being saved; None when there is nothing against it.

    An editor that empties a file and then writes it leaves, for a moment, no assignments or a value whose quote is not
    closed. Neither replaces a configuration that is in force (spec 5.11); what the grammar makes of them counts at the
    next start. An unclosed quote that was there before is no reason.
    """
    path = str(now.home / CONFIG_FILE)
    if before.file_keys and not now.file_keys:
        return Problem(
            path, None, "", "is gone or holds no settings; those in force stay until it has some, or a restart"
        )
    known = {(entry.key, entry.value) for entry in before.unclosed}
    for entry in now.unclosed:
        if (entry.key, entry.value) not in known:
            reason = "the quote is not closed on its line; the settings stay as they were until it is, or a restart"
            return Problem(path, entry.line, entry.key, reason)
    return None


def until_restart(now: Config, before: Config) -> tuple[Config, tuple[str, ...]]:
    """``now`` with the settings that need a restart as they are in ``before``, and the names of those that differ.

    Plugins see them like that too.
    """
    fields = {name: str(info.alias) for name, info in Settings.model_fields.items()}
    fixed = {name: getattr(before.settings, name) for name, alias in fields.items() if alias in NEEDS_RESTART}
    changed = tuple(fields[name] for name, value in fixed.items() if value != getattr(now.settings, name))
    if not changed:
        return now, ()
    environ = {name: value for name, value in now.environ.items() if name not in changed}
    environ |= {name: before.environ[name] for name in changed if name in before.environ}
    settings_kept = now.settings.model_copy(update=fixed)
    return replace(now, settings=settings_kept, environ=MappingProxyType(environ)), changed
