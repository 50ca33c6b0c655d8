"""Agents: names in ``agent_map.json`` that stand for texts under ``Agent/`` (3.2 phase A, D7, D8)."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from app.extend import Piece, Trust
from app.prompt.files import TextFiles, read_text
from app.prompt.pieces import NOT_DATA, PromptText
from app.prompt.scope import Scope
from app.protocol.prompt_texts import agent_cycle, agent_unreadable

log = logging.getLogger(__name__)

AGENT = re.compile(r"\{\{([^{}\r\n]+)\}\}")
PREFIX = "agent:"


@dataclass(frozen=True, slots=True)
class AgentMap:
    """Aliases and their files, and what was wrong with the map."""

    aliases: Mapping[str, str]
    problems: tuple[str, ...] = ()


NO_AGENTS = AgentMap(MappingProxyType({}))


def parse_agent_map(text: str, name: str) -> AgentMap:
    """Read the JSON of an agent map; ``name`` is the file's name for problems.

    Keys that begin with ``//`` are notes and may repeat (P67). Entries that are not texts are left out and named.
    Raises ValueError when the whole is not a JSON object.
    """
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    aliases: dict[str, str] = {}
    problems: list[str] = []
    for alias, path in value.items():
        if alias.startswith("//"):
            continue
        if isinstance(path, str) and path:
            aliases[alias] = path
        else:
            problems.append(f"{name}: agent '{alias}' is not a file path but {json.dumps(path, ensure_ascii=False)}")
    return AgentMap(MappingProxyType(aliases), tuple(problems))


class AgentBook:
    """The agents of one home, always as they are on disk. Methods block and may be called from several threads."""

    def __init__(self, map_path: Path, files: TextFiles) -> None:
        self._path = map_path
        self._files = files
        self._lock = threading.Lock()
        self._text: str | None = None
        self._map = NO_AGENTS

    def load(self) -> AgentMap:
        """The map of now; problems are logged once for each new content.

        A missing map has no agents. A map that cannot be read leaves the last good one in force (P68).
        """
        try:
            text = read_text(self._path)
        except FileNotFoundError:
            text = "{}"
        except OSError as error:
            log.warning("%s cannot be read: %s", self._path.name, error)
            return self._map
        with self._lock:
            if text != self._text:
                self._map = self._parsed(text)
                self._text = text
                for problem in self._map.problems:
                    log.warning("%s", problem)
            return self._map

    def prompt(self, alias: str, path: str) -> str | None:
        """The text of an agent, or None (with a line in the log) when its file cannot be read."""
        try:
            return self._files.read(path)
        except OSError as error:
            similar = self._files.similar(path)
            hint = f"; there is '{similar}': names must match in case" if similar and similar != path else ""
            log.warning("%s: the file of agent '%s' cannot be read: %s%s", self._path.name, alias, error, hint)
            return None

    def _parsed(self, text: str) -> AgentMap:
        try:
            return parse_agent_map(text, self._path.name)
        except (ValueError, RecursionError) as error:
            problem = f"{self._path.name} is not usable, the agents stay as they were: {error}"
            return AgentMap(self._map.aliases, (problem,))


class AgentExpansion:
    """Replaces agent placeholders of one request."""

    def __init__(self, book: AgentBook) -> None:
        self._book = book
        self._aliases = book.load().aliases

    def expand(
        self,
        text: PromptText,
        scope: Scope,
        stack: tuple[str, ...],
        inner: Callable[[PromptText, tuple[str, ...]], PromptText],
    ) -> PromptText:
        """Put in every agent that ``text`` names; ``inner`` expands an agent's own text before it is put in.

        ``stack`` holds the sources that ``text`` is inside of. Unknown names stay.
        """
        wanted: dict[str, tuple[Piece, ...]] = {}
        for match in text.find(AGENT, NOT_DATA):
            alias = match[1].removeprefix(PREFIX)
            if alias in self._aliases and alias not in wanted:
                wanted[alias] = self._pieces(alias, scope, stack, inner)

        def resolve(match: re.Match[str]) -> tuple[Piece, ...] | None:
            alias = match[1].removeprefix(PREFIX)
            pieces = wanted.get(alias)
            if pieces is not None:
                scope.budget.spend(PREFIX + alias, pieces)
            return pieces

        return text.replace(AGENT, resolve, NOT_DATA) if wanted else text

    def _pieces(
        self,
        alias: str,
        scope: Scope,
        stack: tuple[str, ...],
        inner: Callable[[PromptText, tuple[str, ...]], PromptText],
    ) -> tuple[Piece, ...]:
        source = PREFIX + alias
        if source in stack:
            return (Piece(agent_cycle(alias), source, Trust.DATA),)
        scope.budget.descend(source, len(stack))
        content = self._book.prompt(alias, self._aliases[alias])
        if content is None:
            return (Piece(agent_unreadable(alias), source, Trust.DATA),)
        return inner(PromptText.of(content, source, Trust.OPERATOR), (*stack, source)).pieces
