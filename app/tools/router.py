"""The router: the only caller of tools. Every door enters here, so guards, events and limits apply once."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

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
from app.protocol.arguments import declared_properties, fold, fold_names, from_text, is_unset
from app.protocol.nulls import without_nulls
from app.tools.catalogue import Catalogue, FoundTool, Listed, command_named, word_for

log = logging.getLogger(__name__)

COMPLAINTS = 20
"""So many faults in names are logged when the tools have changed."""

_COMMAND = re.compile(r"command[0-9]*")

_OUTCOMES = {None: Outcome.SUCCESS, ErrorKind.CANCELLED: Outcome.CANCELLED}


class Router:
    """Finds tools by name and runs calls.

    Sources are asked in order and the first that has a name keeps it; names on this machine are never shadowed by those
    from elsewhere (D68, see ``Catalogue``). ``started_wanted`` says whether anybody hears ``CallStarted`` now.
    """

    def __init__(
        self,
        sources: Sequence[ToolSource],
        guards: Sequence[Guard],
        events: EventSink,
        *,
        started_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._sources = tuple(sources)
        self._guards = tuple(guards)
        self._events = events
        self._started_wanted = started_wanted
        self._made_of: tuple[tuple[ToolSource, Mapping[str, ToolSpec] | None], ...] = tuple(
            (source, None) for source in self._sources
        )
        self._catalogue = Catalogue(())

    @property
    def sources(self) -> tuple[ToolSource, ...]:
        """Who brings tools, in the order in which they are asked."""
        return self._sources

    def specs(self) -> Mapping[str, ToolSpec]:
        """All tools of now, by name, each in the order of its source."""
        return self._of_now().specs

    def catalogue(self) -> Catalogue:
        """All names of now; another object as soon as a source has other tools."""
        return self._of_now()

    def listed(self) -> Iterator[Listed]:
        """What a door lists: the names that can be called, by tool, commands in the manifest's order (D69)."""
        return self._of_now().listed()

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` each time the tools of any source have changed."""
        for source in self._sources:
            source.changed(told)

    def find(self, name: str) -> FoundTool | None:
        """What ``name`` means: a tool, a command's own name, ``Tool.command``, or what a source makes of it (D68)."""
        found = self._of_now().find(name)
        if found is not None:
            return found
        head, dot, word = name.rpartition(".")
        for source in self._sources:
            spec = source.addressed(name)
            if spec is not None:
                return FoundTool(source, spec)
            spec = source.addressed(head) if dot else None
            if spec is not None and command_named(spec, word) is not None:
                return FoundTool(source, spec, word)
        return None

    def find_spec(self, name: str) -> ToolSpec | None:
        """The description of ``name``, of the tool where a command is named too."""
        found = self.find(name)
        return found.spec if found else None

    def _of_now(self) -> Catalogue:
        for source, tools in self._made_of:
            if source.tools() is not tools:
                return self._renewed()
        return self._catalogue

    def _renewed(self) -> Catalogue:
        before = set(self._catalogue.complaints)
        offers = tuple((source, source.tools()) for source in self._sources)
        self._catalogue = Catalogue(offers)
        self._made_of = offers
        for complaint in [text for text in self._catalogue.complaints if text not in before][:COMPLAINTS]:
            log.warning("%s", complaint)
        return self._catalogue

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """Run one call; never raises, except that a cancelled caller is told so after the call's end was published."""
        found = self.find(call.tool)
        spec = found.spec if found else None
        word = found.command if found else None
        if call.command != word:
            call = replace(call, command=word)
        asked = time.monotonic()
        begun: float | None = None
        result: ToolResult | None = None

        def started(pid: int | None = None, node: str = "") -> None:
            nonlocal begun
            if begun is not None:
                return  # a source that tries twice still runs one call
            begun = time.monotonic()
            assert spec is not None
            if self._started_wanted():
                self._events.publish(
                    CallStarted(
                        context.turn_id, call.id, call.tool, context.door, spec.origin, context.eager, pid, node
                    )
                )

        try:
            result = await self._run(found, call, context, started)
            return result
        finally:
            ended = time.monotonic()
            waited = (begun if begun is not None else ended) - asked
            ran = ended - begun if begun is not None else 0.0
            if result is None:
                result = _cancelled()
            outcome = _OUTCOMES.get(result.error_kind, Outcome.ERROR)
            self._events.publish(
                CallFinished(context.turn_id, call, context, spec, outcome, result, waited=waited, ran=ran)
            )

    async def _run(
        self,
        found: FoundTool | None,
        call: ToolCall,
        context: CallContext,
        started: Callable[..., None],
    ) -> ToolResult:
        try:
            for guard in self._guards:
                refusal = await guard.check(found.spec if found else None, call, context)
                if refusal is not None:
                    return refusal
            if found is None:
                return ToolResult(
                    error_kind=ErrorKind.UNKNOWN_TOOL,
                    message=no_such_tool(call.tool),
                )
            other = _contradiction(found.spec, call)
            if other is not None:
                return ToolResult(error_kind=ErrorKind.EXECUTION, message=_two_commands(call.tool, other))
            prepared = prepare_arguments(found.spec, call)
            return await found.source.call(found.spec, prepared, context, started)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a faulty tool source must not take the turn with it
            log.exception("tool %s failed inside its source", call.tool)
            return ToolResult(error_kind=ErrorKind.EXECUTION, message=f"{type(error).__name__}: {error}")


def _cancelled() -> ToolResult:
    return ToolResult(error_kind=ErrorKind.CANCELLED, message=both("调用已取消", "the call was cancelled"))


def no_such_tool(name: str) -> str:
    """The message of a call whose tool nobody has."""
    return both(f'没有名为 "{name}" 的工具', f'no tool is called "{name}"')


def prepare_arguments(spec: ToolSpec, call: ToolCall) -> ToolCall:
    """Fold the names of the arguments to the declared ones (D4) and convert texts by schema for typed commands (D5).

    What a typed command does not require and was left open (null, an empty text) is left out where it fits not (P86).

    The command is that of ``call.command``, else the one that the arguments name. A call about which nothing is
    declared is returned as it is.
    """
    chosen = command_named(spec, call.command) if call.command else _addressed_command(spec, call.arguments)
    declared: dict[str, Json] = {}
    for candidate in (chosen,) if chosen else spec.commands:
        declared.update(declared_properties(candidate.parameters))
    if not declared and (chosen is None or (chosen.tool_name is None and not chosen.typed)):
        return call
    arguments: dict[str, Json] = dict(call.arguments)
    texts = dict(call.texts)
    if chosen is not None and chosen.tool_name is not None and not _takes_command(chosen):
        for key in [key for key, word in _said_commands(arguments) if word == chosen.tool_name]:
            arguments[key] = texts[key] = word_for(spec, chosen) or chosen.tool_name  # what the program knows it by
    if declared:
        arguments = fold_names(arguments, declared)
        texts = fold_names(texts, declared)
    if chosen is not None and chosen.typed:
        arguments = without_nulls(arguments, chosen.parameters)
        named = (chosen.parameters or {}).get("required")
        required = named if isinstance(named, list) else ()
        for name, text in texts.items():
            schema = declared.get(name)
            if not isinstance(schema, Mapping) or arguments.get(name) != text:
                continue
            if name not in required and is_unset(text, schema, chosen.parameters):
                del arguments[name]
            else:
                arguments[name] = from_text(text, schema, chosen.parameters)
    return call.given(arguments, texts)


def _addressed_command(spec: ToolSpec, arguments: Mapping[str, Json]) -> ToolCommand | None:
    """The command that flat arguments mean: the only one, or the one that an argument ``command`` names."""
    if len(spec.commands) == 1:
        return spec.commands[0]
    for _, word in _said_commands(arguments):
        return command_named(spec, word)
    return None


def _said_commands(arguments: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Each argument ``command``, in whatever spelling, and the word that it holds."""
    for key, value in arguments.items():
        if fold(key) == "command" and isinstance(value, str):
            yield key, value.strip()


def _takes_command(command: ToolCommand) -> bool:
    """True for a command that has an argument ``command`` of its own."""
    return any(fold(name) == "command" for name in declared_properties(command.parameters))


def _contradiction(spec: ToolSpec, call: ToolCall) -> str | None:
    """Another command of the tool that an argument ``command`` names, beside the one that the call's name says.

    What a guard allowed by the name must be what runs, so ``command1`` and so on of chains count too (spec 5.10). An
    argument that the command declares is the command's own.
    """
    named = command_named(spec, call.command) if call.command else None
    if named is None or _takes_command(named):
        return None
    for key, value in call.arguments.items():
        word = value.strip() if _COMMAND.fullmatch(fold(key)) and isinstance(value, str) else ""
        if word and command_named(spec, word) not in (None, named):
            return word
    return None


def _two_commands(name: str, other: str) -> str:
    return both(
        f'"{name}" 已指明命令，参数 command 却是另一个命令 "{other}"；请只写一个',
        f'"{name}" names a command and the argument command another one, "{other}"; name one only',
    )
