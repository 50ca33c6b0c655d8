"""All names of a call that a rule may be about, so that no spelling of one gets around it (spec 7.6; D4, D68, D69)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from app.config.approval_rules import FAR, rule_key
from app.extend import LOCAL, SERVER_ORIGIN, Json, ToolCall, ToolCommand, ToolSpec
from app.protocol.arguments import to_text

_COMMAND = re.compile(r"command\d*")


def names_of(spec: ToolSpec, call: ToolCall) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the call's tool, and those of its commands, as rules have them and in no order that matters.

    A tool that is not on this machine also has its bare names behind ``FAR``, for rules about it on one node. One of an
    MCP server is a command of that server as well, so that ``server`` and ``server:tool`` are rules about it.
    """
    tools = {rule_key(name) for name in (call.tool, spec.name, _bare(call.tool), _bare(spec.name))}
    stems = {rule_key(spec.name), rule_key(_bare(spec.name))}
    if spec.origin.startswith(SERVER_ORIGIN):
        server = rule_key(spec.origin.removeprefix(SERVER_ORIGIN))
        tools.add(server)
        stems.add(server)
    named = {rule_key(name) for name in _named(spec, call)}
    addressed = _addressed(spec, call, named)
    own = {rule_key(command.tool_name) for command in addressed if command.tool_name}
    if spec.origin != LOCAL:
        tools |= {FAR + _bare(name) for name in tools}
        stems |= {FAR + rule_key(_bare(spec.name))}
        own |= {FAR + name for name in own}
    for command in addressed:
        named.update(_keys(command))
    named.discard("")
    commands = {f"{stem}{mark}{name}" for stem in stems for mark in ":." for name in named} | own
    return tuple(tools), tuple(commands)


def _bare(name: str) -> str:
    return name.rpartition(FAR)[2]


def _keys(command: ToolCommand) -> set[str]:
    return {rule_key(name) for name in (command.id, command.command, command.tool_name) if name}


def _named(spec: ToolSpec, call: ToolCall) -> Iterator[str]:
    """What the call itself calls its commands: behind the dot, in ``command`` and any ``command<N>``."""
    if call.command:
        yield call.command
    head, dot, tail = _bare(call.tool).partition(_bare(spec.name) + ".")
    if dot and not head:
        yield tail
    for name, value in call.arguments.items():
        if _COMMAND.fullmatch(rule_key(name)):
            yield from _texts(value)


def _addressed(spec: ToolSpec, call: ToolCall, named: Iterable[str]) -> list[ToolCommand]:
    """The declared commands that the call means: the only one, those it names, the one whose own name it bears."""
    if len(spec.commands) == 1:
        return list(spec.commands)
    wanted = {*named, rule_key(_bare(call.tool))} - {""}
    return [command for command in spec.commands if not wanted.isdisjoint(_keys(command))]


def _texts(value: Json) -> Iterator[str]:
    """The words in a value; lists are gone through, since for some programs a list of one word is that word."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
            continue
        try:
            yield to_text(one) or ""
        except (ValueError, RecursionError):  # no rule can be about it
            continue
