"""``get-modular-tools`` and ``call-modular-tool``: two tools that lead to all others (mcp.md 2.4, 2.5)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from app.errors import VcpError, both
from app.extend import (
    GROUPS,
    SERVER_ORIGIN,
    CallContext,
    CallProgress,
    CallTool,
    Door,
    ErrorKind,
    Event,
    EventSink,
    Json,
    ToolCall,
    ToolCommand,
    ToolResult,
    ToolSpec,
)
from app.mcp.groups.groups import Group, Groups, GroupSet, Member, brief
from app.mcp.groups.texts import CALL_TOOL, GET_TOOLS, call_description, get_description
from app.protocol.arguments import fold
from app.protocol.json_text import compact_json
from app.protocol.markers import KEY_TIMELY_CONTACT
from app.protocol.tolerant_json import tolerant_json
from app.tools.catalogue import Listed
from app.tools.offers import DoorRules

MAX_WAITING_SECONDS = 3600.0
"""Limit of the two tools themselves; what they lead to has its own."""

KNOWN_CHARS = 1_000
"""Of the names that there are, and of a wrong one, in an answer."""

DETAILS = ("brief", "full")

_OWN = ("group", "name", "args")
_TIMELY = fold(KEY_TIMELY_CONTACT)
_TRANSPORT = ("progressToken",)
_TRANSPORT_PREFIX = "io.modelcontextprotocol/"

_THEIR_OWN = frozenset({None, ErrorKind.PLUGIN, ErrorKind.CANCELLED})
"""How calls end whose tool has had its say; all other ends are told in the words of this proxy."""


class GroupTools:
    """The two tools as a source of the router. They are there while there are groups, or ``always`` (MOD-9).

    ``call_tool`` is the router: a call of a group's tool passes all guards under its own name. ``denied`` gives the
    rules of a door; a tool that they deny is neither shown nor called here either (what they allow does not count: who
    is let to these tools is meant to reach the others through them). ``tools_of`` has a server's tools listed, raising
    VcpError; ``progressed`` wants to hear of ``CallProgress``.
    """

    def __init__(
        self,
        groups: Groups,
        call_tool: CallTool,
        events: EventSink,
        *,
        new_id: Callable[[str], str],
        denied: Callable[[Door], tuple[str, ...]] = lambda door: (),
        tools_of: Callable[[str], Awaitable[object]] | None = None,
        always: bool = False,
    ) -> None:
        self._groups = groups
        self._call_tool = call_tool
        self._events = events
        self._new_id = new_id
        self._denied = denied
        self._tools_of = tools_of
        self._always = always
        self._made_of: GroupSet | None = None
        self._tools: Mapping[str, ToolSpec] = MappingProxyType({})
        self._inner: dict[str, tuple[str, str]] = {}
        self._told: tuple[Callable[[], None], ...] = ()
        self._told_of: Mapping[str, ToolSpec] | None = None

    # ------------------------------------------------------------------ the source

    def tools(self) -> Mapping[str, ToolSpec]:
        """Both tools, described with the groups of now; none while there are no groups."""
        groups = self._groups.of_now()
        if groups is not self._made_of:
            self._made_of = groups
            specs = _specs(groups) if groups.groups or self._always else {}
            if specs != self._tools:
                self._tools = MappingProxyType(specs)
        return self._tools

    def changed(self, told: Callable[[], None]) -> None:
        """Call ``told`` when groups may be others; changes of tools are told by those who bring them."""
        self._told = (*self._told, told)

    def look(self) -> None:
        """Tell those who want to know when the groups are others than at the last look."""
        tools = self.tools()
        if tools is not self._told_of:
            first, self._told_of = self._told_of is None, tools
            for told in () if first else self._told:
                told()

    def has_schema(self, schema: Mapping[str, Json]) -> bool:
        """Whether this is the schema of one of the two tools, which check their arguments themselves (2.5)."""
        return any(schema is spec.commands[0].parameters for spec in self._tools.values())

    def addressed(self, name: str) -> ToolSpec | None:
        """None: both tools are listed."""
        del name
        return None

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        """Show a group, or pass a call on."""
        started()
        issues = list(_issues(call.arguments, ("group",) if spec.name == GET_TOOLS else ("group", "name")))
        if issues:
            return _refused(issues)
        try:
            if spec.name == GET_TOOLS:
                return await self._shown(call, context)
            return await self._passed_on(call, context)
        except VcpError as error:
            return fault(error.message)

    # ------------------------------------------------------------------ the two tools

    async def _shown(self, call: ToolCall, context: CallContext) -> ToolResult:
        full = call.arguments.get("detail") == "full"
        group = await self._group(str(call.arguments["group"]))
        shown: list[Json] = [tool_entry(group, member, full=full) for member in self._members(group, context.door)]
        structured = {"group": group.name, "tools": shown}
        content = [{"type": "text", "text": compact_json(shown)}]
        return ToolResult(structured=structured, mcp={"content": content, "structuredContent": structured})

    async def _passed_on(self, call: ToolCall, context: CallContext) -> ToolResult:
        name = str(call.arguments["name"])
        arguments, texts = _inner_arguments(call)
        wanted = str(call.arguments["group"])
        known = self._named(wanted)  # what is listed is called at once; the server is asked for what is not
        member = self._member(known, name, context.door) if known is not None else None
        if member is None:
            group = await self._group(wanted)
            member = self._member(group, name, context.door)
            if member is None:
                return fault(self._no_member(group, name, context.door))
        inner = ToolCall(
            id=self._new_id("call"),
            tool=member.offered.full_name,
            arguments=arguments,
            texts=texts,
            password=call.password,
            maid=call.maid,
        )
        self._inner[inner.id] = context.turn_id, call.id
        try:
            result = await self._call_tool(inner, replace(context, parent_call_id=call.id, eager=False))
        finally:
            del self._inner[inner.id]
        return _as_answer(result)

    def progressed(self, event: Event) -> None:
        """Tell the progress of a call that was passed on as that of the call which led to it (MCP-60)."""
        if isinstance(event, CallProgress) and (outer := self._inner.get(event.call_id)) is not None:
            self._events.publish(CallProgress(*outer, event.progress, event.total, event.message))

    # ------------------------------------------------------------------ groups and members

    def _named(self, name: str) -> Group | None:
        """The group of a name, with some patience for capitals and blanks."""
        groups = self._groups.of_now().groups
        found = groups.get(name)
        if found is not None:
            return found
        wanted = name.strip().casefold()
        alike = [group for own, group in groups.items() if own.casefold() == wanted]
        return alike[0] if len(alike) == 1 else None

    async def _group(self, name: str) -> Group:
        """The group, whose server is asked for its tools; raises VcpError for an unknown one and a dead server."""
        group = self._named(name)
        if group is None:
            known = ", ".join(one.name for one in self._groups.of_now().available())[:KNOWN_CHARS] or "-"
            raise _NoGroupError(
                both(f"没有工具组 {name[:KNOWN_CHARS]}；现有", f"there is no group {name[:KNOWN_CHARS]}; there are")
                + f": {known}"
            )
        if group.server and self._tools_of is not None:
            try:
                await self._tools_of(group.server)
            except VcpError as error:
                if not group.members or group.error:
                    raise _NoGroupError(
                        both(f"工具组 {group.name} 连接失败", f"group {group.name} failed to connect")
                        + f": {brief(error.message)}"
                    ) from error
            group = self._groups.of_now().groups.get(group.name, group)
        return group

    def _members(self, group: Group, door: Door) -> Iterator[Member]:
        rules = DoorRules(deny=self._denied(door))
        for member in group.members.values():
            offered = member.offered
            if rules.shows(Listed(offered.full_name, offered.spec, offered.command)):
                yield member

    def _no_member(self, group: Group, name: str, door: Door) -> str:
        known = ", ".join(one.name for one in self._members(group, door))[:KNOWN_CHARS] or "-"
        name = name[:KNOWN_CHARS]
        return (
            both(f"工具组 {group.name} 没有工具 {name}；它有", f"group {group.name} has no tool {name}; it has")
            + f": {known}"
        )

    def _member(self, group: Group, name: str, door: Door) -> Member | None:
        member = group.find(name) or group.find(name.strip())
        return member if member is not None and member in self._members(group, door) else None


class _NoGroupError(VcpError):
    """A group cannot be shown; the message is for the model."""


def _specs(groups: GroupSet) -> dict[str, ToolSpec]:
    group: dict[str, Json] = {
        "type": "string",
        "enum": [one.name for one in groups.available()],
    }
    get = {
        "type": "object",
        "properties": {"group": group, "detail": {"type": "string", "enum": list(DETAILS)}},
        "required": ["group"],
    }
    call = {
        "type": "object",
        "properties": {
            "group": group,
            "name": {"type": "string"},
            "args": {"type": "object", "additionalProperties": True},
        },
        "required": ["group", "name"],
    }
    return {
        GET_TOOLS: _spec(GET_TOOLS, get_description(groups), get),
        CALL_TOOL: _spec(CALL_TOOL, call_description(), call),
    }


def listed_tools(groups: GroupSet) -> list[Json]:
    """The two tools as ``tools/list`` has them."""
    return [
        {"name": spec.name, "description": command.description, "inputSchema": command.parameters}
        for spec in _specs(groups).values()
        for command in spec.commands
    ]


def _spec(name: str, description: str, parameters: Mapping[str, Json]) -> ToolSpec:
    command = ToolCommand(id=name, command="", description=description, parameters=parameters, typed=True)
    return ToolSpec(
        name=name, origin=GROUPS, display=name, commands=(command,), timeout=MAX_WAITING_SECONDS, eager=False
    )


def tool_entry(group: Group, member: Member, *, full: bool) -> dict[str, Json]:
    """A tool of a group as ``get-modular-tools`` shows it (2.5)."""
    offered, command = member.offered, member.offered.command
    # A server that says nothing of its tool is not given words; our own tools go by their title then.
    silent = offered.spec.origin.startswith(SERVER_ORIGIN) and not (command and command.description)
    schema = {key: value for key, value in offered.input_schema.items() if key != "$schema"}
    shown: dict[str, Json] = {"name": member.name}
    if not silent:
        shown["description"] = offered.description
    shown["inputSchema"] = schema
    if full:
        more = {
            "title": offered.title if offered.title != member.name else None,
            "outputSchema": command.output_schema if command else None,
            "annotations": command.annotations if command else None,
        }
        shown |= {key: value for key, value in more.items() if value}
    return shown


def _issues(arguments: Mapping[str, Json], texts: tuple[str, ...]) -> Iterator[dict[str, Json]]:
    """What is wrong with the arguments, in the shape that clients of such proxies know (2.5)."""
    for name in texts:
        if not isinstance(arguments.get(name), str):
            yield _issue(name, "string", arguments.get(name))
    if texts != ("group",) and not isinstance(arguments.get("args", {}), dict | str | None):
        yield _issue("args", "record", arguments["args"])


def _issue(name: str, expected: str, value: Json) -> dict[str, Json]:
    kinds = {type(None): "undefined", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    given = kinds.get(type(value), "string")
    return {
        "expected": expected,
        "code": "invalid_type",
        "path": [name],
        "message": f"Invalid input: expected {expected}, received {given}",
    }


def _inner_arguments(call: ToolCall) -> tuple[dict[str, Json], dict[str, str]]:
    """What the group's tool is given: ``args``, and the further arguments of a call that was written as text.

    When it is to run is said of that tool, wherever it stands: put off later, this call would have passed its door.
    Raises VcpError for ``args`` that are no object. Texts are converted by the tool's schema, as in any call of text.
    """
    given = call.arguments.get("args")
    if isinstance(given, str):
        try:
            given = tolerant_json(given)[0] if given.strip() else {}
        except (ValueError, RecursionError) as error:
            what = f"{error.msg} ({error.lineno}:{error.colno})" if isinstance(error, json.JSONDecodeError) else error
            raise _ArgumentsError(both("args 不是有效的 JSON 对象", "args is no JSON object") + f": {what}") from error
    if given is not None and not isinstance(given, dict):
        raise _ArgumentsError(both("args 应是 JSON 对象", "args must be a JSON object"))
    flat = {key: text for key, text in call.texts.items() if key not in _OWN and key in call.arguments}
    time = {key: value for key, value in call.arguments.items() if fold(key) == _TIMELY}
    arguments: dict[str, Json] = {**flat, **time, **(given or {})}
    if not call.texts:
        return arguments, {}
    return arguments, {key: value for key, value in arguments.items() if isinstance(value, str)}


class _ArgumentsError(VcpError):
    """``args`` cannot be used; the message is for the model."""


def fault(message: str) -> ToolResult:
    """An answer that a model can read: this proxy could not do what was asked (2.5)."""
    text = compact_json({"success": False, "error": message})
    return ToolResult(
        error_kind=ErrorKind.PLUGIN,
        message=message,
        mcp={"content": [{"type": "text", "text": text}], "isError": True},
    )


def _refused(issues: list[dict[str, Json]]) -> ToolResult:
    names = ", ".join(str(issue["path"][0]) for issue in issues)
    text = compact_json({"success": False, "error": issues})
    return ToolResult(
        error_kind=ErrorKind.PLUGIN,
        message=both(f"缺少参数或类型不对：{names}", f"arguments are missing or of a wrong type: {names}"),
        mcp={"content": [{"type": "text", "text": text}], "isError": True},
    )


def _as_answer(result: ToolResult) -> ToolResult:
    """The tool's own result as it is, without what belongs to the connection to its server (2.5)."""
    if result.mcp is None:
        return result if result.error_kind in _THEIR_OWN else replace(result, mcp=fault(result.message).mcp)
    meta = result.mcp.get("_meta")
    if not isinstance(meta, Mapping):
        return result
    kept = {
        key: value for key, value in meta.items() if key not in _TRANSPORT and not key.startswith(_TRANSPORT_PREFIX)
    }
    answer = {key: value for key, value in result.mcp.items() if key != "_meta"}
    return replace(result, mcp={**answer, "_meta": kept} if kept else answer)
