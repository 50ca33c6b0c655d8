"""The router: the only caller of tools. Every door enters here, so guards, events and limits apply once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from app.errors import both
from app.extend import (
    CallContext,
    CallFinished,
    CallStarted,
    ErrorKind,
    EventSink,
    Guard,
    Json,
    Outcome,
    ToolCall,
    ToolCommand,
    ToolResult,
    ToolSource,
    ToolSpec,
)
from app.protocol.arguments import fold, fold_names, from_text

log = logging.getLogger(__name__)

_OUTCOMES = {None: Outcome.SUCCESS, ErrorKind.CANCELLED: Outcome.CANCELLED}


class Router:
    """Finds tools by name and runs calls.

    Sources are asked in order and the first that has a name keeps it, so a local tool is never shadowed (D68).
    """

    def __init__(self, sources: Sequence[ToolSource], guards: Sequence[Guard], events: EventSink) -> None:
        self._sources = tuple(sources)
        self._guards = tuple(guards)
        self._events = events

    def specs(self) -> Mapping[str, ToolSpec]:
        """All tools of now, by name, each in the order of its source."""
        merged: dict[str, ToolSpec] = {}
        for source in self._sources:
            for name, spec in source.tools().items():
                merged.setdefault(name, spec)
        return MappingProxyType(merged)

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` each time the tools of any source have changed."""
        for source in self._sources:
            source.changed(told)

    def find(self, name: str) -> tuple[ToolSource, ToolSpec, str | None] | None:
        """The source and description of ``name``; ``Plugin.command`` also gives the command (D68)."""
        for source in self._sources:
            spec = source.tools().get(name)
            if spec is not None:
                return source, spec, None
        head, dot, tail = name.rpartition(".")
        if not dot:
            return None
        for source in self._sources:
            spec = source.tools().get(head)
            if spec is not None and _command(spec, tail) is not None:
                return source, spec, tail
        return None

    def find_spec(self, name: str) -> ToolSpec | None:
        """The description of ``name``, of the plugin where a command is named too."""
        found = self.find(name)
        return found[1] if found else None

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """Run one call; never raises, except that a cancelled caller is told so after the call's end was published."""
        found = self.find(call.tool)
        spec = found[1] if found else None
        asked = time.monotonic()
        begun: float | None = None
        result = ToolResult(error_kind=ErrorKind.CANCELLED, message=both("调用已取消", "the call was cancelled"))
        outcome = Outcome.CANCELLED

        def started(pid: int | None = None, node: str = "") -> None:
            nonlocal begun
            if begun is not None:
                return  # a source that tries twice still runs one call
            begun = time.monotonic()
            assert spec is not None
            self._events.publish(
                CallStarted(context.turn_id, call.id, call.tool, context.door, spec.origin, context.eager, pid, node)
            )

        try:
            result = await self._run(found, call, context, started)
            outcome = _OUTCOMES.get(result.error_kind, Outcome.ERROR)
            return result
        finally:
            ended = time.monotonic()
            waited = (begun if begun is not None else ended) - asked
            ran = ended - begun if begun is not None else 0.0
            self._events.publish(
                CallFinished(context.turn_id, call, context, spec, outcome, result, waited=waited, ran=ran)
            )

    async def _run(
        self,
        found: tuple[ToolSource, ToolSpec, str | None] | None,
        call: ToolCall,
        context: CallContext,
        started: Callable[..., None],
    ) -> ToolResult:
        try:
            for guard in self._guards:
                refusal = await guard.check(found[1] if found else None, call, context)
                if refusal is not None:
                    return refusal
            if found is None:
                return ToolResult(
                    error_kind=ErrorKind.UNKNOWN_TOOL,
                    message=no_such_tool(call.tool),
                )
            source, spec, command = found
            return await source.call(spec, prepare_arguments(spec, call, command), context, started)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a faulty tool source must not take the turn with it
            log.exception("tool %s failed inside its source", call.tool)
            return ToolResult(error_kind=ErrorKind.EXECUTION, message=f"{type(error).__name__}: {error}")


def no_such_tool(name: str) -> str:
    """The message of a call whose tool nobody has."""
    return both(f'没有名为 "{name}" 的工具', f'no tool is called "{name}"')


def prepare_arguments(spec: ToolSpec, call: ToolCall, command: str | None) -> ToolCall:
    """Fold the names of the arguments to the declared ones (D4) and convert texts by schema for typed commands (D5)."""
    chosen = _command(spec, command) if command else _addressed_command(spec, call.arguments)
    declared: set[str] = set()
    for candidate in (chosen,) if chosen else spec.commands:
        declared.update(_properties(candidate))
    arguments: dict[str, Json] = dict(call.arguments)
    texts = dict(call.texts)
    if declared:
        arguments = fold_names(arguments, declared)
        texts = fold_names(texts, declared)
    if chosen is not None and chosen.typed:
        properties = _properties(chosen)
        for name, text in texts.items():
            schema = properties.get(name)
            if isinstance(schema, Mapping) and arguments.get(name) == text:
                arguments[name] = from_text(text, schema, chosen.parameters)
    return ToolCall(call.id, call.tool, arguments, texts, call.archery, command, call.password, call.maid)


def _properties(command: ToolCommand) -> Mapping[str, Json]:
    properties = (command.parameters or {}).get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _command(spec: ToolSpec, name: str) -> ToolCommand | None:
    return next((command for command in spec.commands if name in (command.id, command.command)), None)


def _addressed_command(spec: ToolSpec, arguments: Mapping[str, Json]) -> ToolCommand | None:
    """The command that flat arguments mean: the only one, or the one that an argument ``command`` names."""
    if len(spec.commands) == 1:
        return spec.commands[0]
    for key, value in arguments.items():
        if fold(key) == "command" and isinstance(value, str):
            return _command(spec, value.strip())
    return None
