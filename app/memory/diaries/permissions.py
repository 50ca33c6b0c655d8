"""Who may read and write which notebook: ``notebook_permissions.json`` of the home (memory.md 11.23). Open without it.

An agent's name is what it says about itself, so this keeps agents apart that follow their instructions; it is no wall
against one that lies.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.config.small_file import read_small
from app.memory.diaries.files import DiaryError
from app.protocol.tolerant_json import tolerant_json

log = logging.getLogger(__name__)

PERMISSIONS_FILE = "notebook_permissions.json"
MAX_FILE_BYTES = 1024 * 1024

EVERYBODY = "*"
DEFAULT = "default"
"""Key of the rule for notebooks that are not named."""


class NotPermittedError(DiaryError):
    """The agent may not do that in this notebook."""

    status = 403
    code = "not_permitted"


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may read and write, by name; ``*`` is everybody. ``own``: the notebook's own agent may do both."""

    read: frozenset[str]
    write: frozenset[str]
    own: bool = False


OPEN = Rule(frozenset({EVERYBODY}), frozenset({EVERYBODY}))

_NAMED = {
    "shared": OPEN,
    "private": Rule(frozenset(), frozenset(), own=True),
    "read-only": Rule(frozenset({EVERYBODY}), frozenset()),
}


@dataclass(frozen=True, slots=True)
class Permissions:
    """The rules by notebook; ``default`` holds for all others."""

    rules: Mapping[str, Rule]
    default: Rule = OPEN

    def may_read(self, agent: str, notebook: str) -> bool:
        """Whether this agent may be shown the notebook; an empty name is an unknown agent."""
        return self._allowed(self._rule(notebook).read, agent, notebook)

    def may_write(self, agent: str, notebook: str) -> bool:
        """Whether this agent may add, change and move notes there."""
        return self._allowed(self._rule(notebook).write, agent, notebook)

    def check_read(self, agent: str, notebook: str) -> None:
        """Raises NotPermittedError."""
        if not self.may_read(agent, notebook):
            raise NotPermittedError(
                f"{agent or '未署名者'} 不能读取日记本 {notebook!r}",
                f"{agent or 'an unnamed agent'} may not read the notebook {notebook!r}",
            )

    def check_write(self, agent: str, notebook: str) -> None:
        """Raises NotPermittedError."""
        if not self.may_write(agent, notebook):
            raise NotPermittedError(
                f"{agent or '未署名者'} 不能写入日记本 {notebook!r}",
                f"{agent or 'an unnamed agent'} may not write into the notebook {notebook!r}",
            )

    def _rule(self, notebook: str) -> Rule:
        return self.rules.get(notebook, self.default)

    def _allowed(self, names: frozenset[str], agent: str, notebook: str) -> bool:
        if EVERYBODY in names or (agent and agent in names):
            return True
        return self._rule(notebook).own and bool(agent) and (notebook == agent or notebook.startswith(agent + "的"))


def read_permissions(home: Path) -> Permissions:
    """The rules of now. Without the file everything is open; so it is with one that cannot be read, for a mistake in it
    must not cost anybody's notes: the log says what is wrong.

    ``{"小克": "private", "公共": "shared", "制度": "read-only", "项目": {"read": ["*"], "write": ["Nova"]}, "default":
    "shared"}``; comments are allowed.
    """
    try:
        data = read_small(home / PERMISSIONS_FILE, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return Permissions({})
    except (OSError, ValueError) as error:
        return _unusable(str(error))
    try:
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"it is over {MAX_FILE_BYTES} bytes")
        value, _ = tolerant_json(data.decode("utf-8-sig"))
        if not isinstance(value, dict):
            raise ValueError("it is no JSON object")
        rules = {str(name): _read_rule(name, rule) for name, rule in value.items()}
    except (ValueError, RecursionError) as error:
        return _unusable(str(error))
    default = rules.pop(DEFAULT, OPEN)
    return Permissions(rules, default)


def _unusable(why: str) -> Permissions:
    log.error("%s cannot be used, every notebook is open to all agents: %s", PERMISSIONS_FILE, why)
    return Permissions({})


def _read_rule(name: str, value: object) -> Rule:
    if isinstance(value, str) and value in _NAMED:
        return _NAMED[value]
    if isinstance(value, dict) and set(value) <= {"read", "write"}:
        return Rule(_names(value.get("read", [EVERYBODY])), _names(value.get("write", [])))
    raise ValueError(f"{name!r} is neither shared, private, read-only nor an object of read and write")


def _names(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset({value})
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return frozenset(value)
    raise ValueError("read and write are lists of names")
