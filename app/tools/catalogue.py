"""All tools of one moment: what each name means, and what a door lists (D68, D69)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from app.extend import LOCAL, ToolCommand, ToolSource, ToolSpec
from app.tools.names import settle


@dataclass(frozen=True, slots=True)
class FoundTool:
    """What a name means. ``command`` is the word for the command that the name itself says (``ToolCall.command``)."""

    source: ToolSource
    spec: ToolSpec
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool as a door lists it; ``command`` is None where the name stands for all that the tool can do."""

    name: str
    spec: ToolSpec
    command: ToolCommand | None


class Catalogue:
    """What the sources offer at one moment; never changes.

    A name is looked for among those of tools, then those that commands bring, then ``Tool.command``. All of these on
    this machine come before any from elsewhere; otherwise the sources' order decides. ``specs`` holds the tools that
    their name leads to, with such own names of commands as are in force.
    """

    def __init__(self, offers: Sequence[tuple[ToolSource, Mapping[str, ToolSpec]]]) -> None:
        ranks: list[dict[str, tuple[ToolSource, ToolSpec]]] = [{}, {}]
        for source, tools in offers:
            for name, spec in tools.items():
                ranks[spec.origin != LOCAL].setdefault(name, (source, spec))
        for name in ranks[0]:
            ranks[1].pop(name, None)
        settled, lost = settle(*([(name, spec.commands) for name, (_, spec) in rank.items()] for rank in ranks))
        self._names: dict[str, FoundTool] = {}
        self._tools: dict[str, FoundTool] = {}
        complaints = [f"toolName {fault.name} of {fault.tool} is not used: it {fault.why}" for fault in lost]
        for rank in ranks:
            here: dict[str, FoundTool] = {}
            for name, (source, spec) in rank.items():
                if name in self._names or self._behind_dot(name) is not None:
                    complaints.append(f"tool {name} of {spec.origin} is not used: a command on this machine is that")
                    continue
                if settled[name] is not spec.commands:
                    spec = replace(spec, commands=settled[name])
                here[name] = FoundTool(source, spec)
            self._names.update(here)
            for found in here.values():
                self._add_own_names(found)
            self._tools.update(here)
        order = dict.fromkeys(name for _, tools in offers for name in tools)
        self.specs: Mapping[str, ToolSpec] = MappingProxyType(
            {name: self._tools[name].spec for name in order if name in self._tools}
        )
        self.complaints = tuple(complaints)

    def find(self, name: str) -> FoundTool | None:
        """What a name means, or None when nobody lists it."""
        return self._names.get(name) or self._behind_dot(name)

    def listed(self) -> Iterator[Listed]:
        """The tools that can be called, by name; those with several commands once for each, in their own order."""
        for name, spec in sorted(self.specs.items()):
            if not spec.callable:
                continue
            several = len(spec.commands) > 1
            whole = not spec.commands
            for command in spec.commands:
                shown = command.tool_name or (self._dotted(name, spec, command) if several else name)
                if shown is None:
                    whole = True
                else:
                    yield Listed(shown, spec, command)
            if whole:
                yield Listed(name, spec, None)

    def _add_own_names(self, found: FoundTool) -> None:
        for command in found.spec.commands:
            if command.tool_name is not None:
                word = word_for(found.spec, command) if len(found.spec.commands) > 1 else None
                self._names.setdefault(command.tool_name, FoundTool(found.source, found.spec, word))

    def _behind_dot(self, name: str) -> FoundTool | None:
        head, dot, word = name.rpartition(".")
        found = self._tools.get(head) if dot and word else None
        if found is None or not any(word in (command.id, command.command) for command in found.spec.commands):
            return None
        return FoundTool(found.source, found.spec, word)

    def _dotted(self, name: str, spec: ToolSpec, command: ToolCommand) -> str | None:
        for word in (command.id, command.command):
            found = self.find(f"{name}.{word}") if word else None
            if found is not None and found.spec is spec and command_named(spec, word) is command:
                return f"{name}.{word}"
        return None


def command_named(spec: ToolSpec, word: str) -> ToolCommand | None:
    """The command of a tool that a word means: its id, its ``command`` or its own name."""
    return next((command for command in spec.commands if word in _words(command)), None)


def _words(command: ToolCommand) -> tuple[str | None, ...]:
    return command.id, command.command, command.tool_name


def word_for(spec: ToolSpec, command: ToolCommand) -> str | None:
    """The word for a command that the tool's program knows and that means no other."""
    for word in (command.command, command.id):
        if word and command_named(spec, word) is command:
            return word
    return command.tool_name
