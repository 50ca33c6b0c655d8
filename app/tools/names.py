"""Names of tools: those that commands bring, and the form for doors that allow few characters (D68, D69). Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.extend import ToolCommand

MAX_CHARS = 64
HASH_CHARS = 10

_RESTRICTED = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_CHARS}}}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def is_restricted(name: str) -> bool:
    """True for a name that every door takes as it is: 1 to 64 letters, digits, ``_`` and ``-``, all ASCII."""
    return _RESTRICTED.fullmatch(name) is not None


class RestrictedNames:
    """The names of tools as ``[A-Za-z0-9_-]{1,64}``, for native calls and OpenAPI, and the exact way back (D68).

    ``.`` becomes ``__`` and other characters ``_``. A name that is legal already stays; of others that would become the
    same, or are too long, each gets a digest of its full name. So the order of the names, restarts, and names that
    resemble no other change nothing. ``groups`` come by rank: what a later one brings never changes the name of an
    earlier one, so that a tool from outside cannot take that of a local one.
    """

    def __init__(self, *groups: Iterable[str]) -> None:
        self._restricted: dict[str, str] = {}
        self._full: dict[str, str] = {}
        for group in groups:
            self._add(sorted(set(group) - self._restricted.keys()))

    def restricted(self, name: str) -> str:
        """The restricted form of one of the names; KeyError for others."""
        return self._restricted[name]

    def full(self, restricted: str) -> str | None:
        """The name that became ``restricted``, or None."""
        return self._full.get(restricted)

    def _add(self, names: Sequence[str]) -> None:
        legal = {name for name in names if is_restricted(name) and name not in self._full}
        for name in legal:
            self._put(name, name)
        others = [name for name in names if name not in legal]
        plain = {name: _OTHER.sub("_", name.replace(".", "__")) for name in others}
        wanted = Counter(plain.values())
        hashed = []
        for name in others:
            candidate = plain[name]
            if is_restricted(candidate) and wanted[candidate] == 1 and candidate not in self._full:
                self._put(name, candidate)
            else:
                hashed.append(name)
        for name in hashed:
            self._put(name, self._hashed(name, plain[name]))

    def _hashed(self, name: str, plain: str) -> str:
        head, attempt = plain[: MAX_CHARS - HASH_CHARS - 1], 0
        while True:  # ends: each attempt is another digest, and the names that are taken are finite
            salted = f"{name}\0{attempt}" if attempt else name
            digest = hashlib.sha256(salted.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARS]
            candidate = f"{head}_{digest}"
            if candidate not in self._full:
                return candidate
            attempt += 1

    def _put(self, name: str, restricted: str) -> None:
        self._restricted[name] = restricted
        self._full[restricted] = name


@dataclass(frozen=True, slots=True)
class LostName:
    """A command's own name that is not in force: ``keeper`` is the tool that has it, empty for a name that is none."""

    tool: str
    name: str
    keeper: str

    @property
    def why(self) -> str:
        """What is wrong with it, for people."""
        if not self.keeper:
            return f"is no name: 1 to {MAX_CHARS} letters, digits, _ and - are allowed"
        return f"is already a name of {self.keeper}"


Commands = tuple[ToolCommand, ...]


def settle(*groups: Iterable[tuple[str, Commands]]) -> tuple[dict[str, Commands], list[LostName]]:
    """The commands of each tool with those own names that are in force, and the names that were lost (D69).

    A tool's name beats any that a command brings, and of commands the first one has it. ``groups`` come by rank: what a
    later one brings takes nothing from an earlier one.
    """
    keepers: dict[str, str] = {}
    settled: dict[str, Commands] = {}
    lost: list[LostName] = []
    for group in groups:
        tools = list(group)
        for tool, _ in tools:
            keepers.setdefault(tool, tool)
        for tool, commands in tools:
            settled[tool] = commands
            for place, command in enumerate(commands):
                own = command.tool_name
                if own is None:
                    continue
                if is_restricted(own) and own not in keepers:
                    keepers[own] = tool
                    continue
                lost.append(LostName(tool, own, keepers.get(own, "") if is_restricted(own) else ""))
                before = settled[tool]
                settled[tool] = (*before[:place], replace(command, tool_name=None), *before[place + 1 :])
    return settled, lost
