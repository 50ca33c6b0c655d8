"""What saving a changed ``config.env`` would mean: problems, differences, what waits for a restart."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.config.dotenv import EnvFile, assignments, parse, with_plain_ends
from app.config.env_edit import changed_keys
from app.config.keys import check_bind, check_tool_port
from app.config.problem import Problem
from app.config.setting_forms import is_secret
from app.config.settings import NEEDS_RESTART
from app.config.snapshot import CONFIG_FILE, Config, of_file
from app.errors import ConfigError, both

MASK = "••••••"
"""What stands in the place of a secret."""

CONTEXT = 3
MAX_SHOWN_LINES = 2000
"""Lines of differences that are shown."""

MAX_COMPARED_LINES = 2000
"""Lines between the first and the last difference that are compared; of more all count as changed."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of differences; numbers count from 1 and are None where the line is not in that version."""

    kind: Literal["same", "gone", "new", "gap"]
    text: str
    before: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """What saving would mean.

    ``refusal`` says why the server could not start with it, or nobody could come into the panel any more, empty when
    all is well. ``problems`` are those of the whole text in its order; ``new_problems`` the ones that the present text
    does not have. ``restart`` are changed settings that a running server takes over only after a restart.
    """

    keys: tuple[str, ...]
    problems: tuple[Problem, ...]
    new_problems: tuple[Problem, ...]
    refusal: str
    restart: tuple[str, ...]


def environment_of(config: Config) -> dict[str, str]:
    """The variables of a configuration that win over its file: those of the operating system and the command line."""
    return {key: value for key, value in config.environ.items() if key in config.outside}


def review(home: Path, before: str, after: str, environ: Mapping[str, str]) -> Review:
    """Judge a text that may replace another one, under the variables of the operating system. Pure.

    It is read as at a start; unlike there, a quote that does not close is a problem, since a running server waits for
    its end (spec 5.11).
    """
    keys = tuple(changed_keys(before, after))
    then, now = _loaded(home, after, environ), _loaded(home, before, environ)
    problems = _problems(home, then)
    known = {(problem.key, problem.reason) for problem in _problems(home, now)}
    refusal = ""
    try:
        check_bind(then)
        check_tool_port(then)
    except ConfigError as error:
        refusal = error.message
    if _has_administrator(now) and not _has_administrator(then):
        refusal = refusal or both(
            "AdminUsername 或 AdminPassword 为空：保存后面板会对所有人关闭。如确要关闭，请直接编辑 config.env",
            "AdminUsername or AdminPassword is empty, which closes the panel to everybody, also to you; "
            "to close it, edit config.env itself",
        )
    return Review(
        keys,
        problems,
        tuple(problem for problem in problems if (problem.key, problem.reason) not in known),
        refusal,
        tuple(key for key in keys if key in NEEDS_RESTART and key not in environ),
    )


def _loaded(home: Path, text: str, environ: Mapping[str, str]) -> Config:
    return of_file(home, EnvFile(home / CONFIG_FILE, tuple(parse(text))), environ)


def _has_administrator(config: Config) -> bool:
    return bool(config.settings.admin_username and config.settings.admin_password)


def _problems(home: Path, config: Config) -> tuple[Problem, ...]:
    path = str(home / CONFIG_FILE)
    unclosed = (
        Problem(path, entry.line, entry.key, "the quote at the beginning of the value is not closed on its line")
        for entry in config.unclosed
    )
    return tuple(sorted((*config.problems, *unclosed), key=lambda problem: problem.line or 0))


def differences(before: str, after: str, *, secrets: bool) -> list[DiffLine]:
    """The lines that differ between two texts, with some context; without ``secrets`` their values are masked.

    At most ``MAX_SHOWN_LINES``, then a gap.
    """
    old, new = _lines(before), _lines(after)
    shown_old, shown_new = (old, new) if secrets else (_masked(before), _masked(after))
    lines: list[DiffLine] = []
    for group in _groups(old, new):
        if lines:
            lines.append(DiffLine("gap", ""))
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += (DiffLine("same", shown_new[c + n], a + n + 1, c + n + 1) for n in range(b - a))
            else:
                lines += (DiffLine("gone", shown_old[n], n + 1, None) for n in range(a, b))
                lines += (DiffLine("new", shown_new[n], None, n + 1) for n in range(c, d))
        if len(lines) > MAX_SHOWN_LINES:
            return [*lines[:MAX_SHOWN_LINES], DiffLine("gap", "")]
    return lines


def _lines(text: str) -> list[str]:
    """The lines of a text; the end of the last one begins no further one."""
    return with_plain_ends(text).removesuffix("\n").split("\n") if text else []


def _masked(text: str) -> list[str]:
    """The lines of a text whose secret values are masks; each line stays one."""
    plain = with_plain_ends(text)
    pieces: list[str] = []
    done = 0
    for found in assignments(plain):
        if is_secret(found.entry.key) and found.ends > found.opens:
            lines = plain.count("\n", found.opens, found.ends)
            pieces += (plain[done : found.opens], MASK, f"\n{MASK}" * lines)
            done = found.ends
    return _lines("".join((*pieces, plain[done:])))


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[Sequence[tuple[str, int, int, int, int]]]:
    """Groups of differences with context, as difflib makes them; equal beginnings and ends are not compared twice."""
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    if same == len(old) == len(new):
        return
    rest = min(len(old), len(new)) - same
    ends = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    start, old_end, new_end = (
        max(0, same - CONTEXT),
        len(old) - max(0, ends - CONTEXT),
        len(new) - max(0, ends - CONTEXT),
    )
    if max(old_end, new_end) - start > MAX_COMPARED_LINES:
        yield [("replace", same, len(old) - ends, same, len(new) - ends)]
        return
    matcher = difflib.SequenceMatcher(None, old[start:old_end], new[start:new_end])
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in group]
