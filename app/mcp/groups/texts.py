"""What models read of groups: descriptions of the two tools (mcp.md 2.4), and texts for prompts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.extend import LOCAL, Piece, ToolCommand, ToolSpec, Trust
from app.mcp.groups.groups import Group, GroupSet
from app.protocol import markers
from app.protocol.prompt_texts import TOOL_SEPARATOR
from app.tools.descriptions import describe
from app.tools.offers import DESCRIPTION_BYTES

GET_TOOLS = "get-modular-tools"
CALL_TOOL = "call-modular-tool"

MAX_TEXT_CHARS = 64_000
"""Longest text with the tools of one group, or with all groups; what is beyond it is counted."""

LISTED_CHARS = 500
"""Of each group's description in a prompt."""

DESCRIPTION_STEPS = (2_000, 400, 200, 100, 50, 20, 0)
"""So many characters of each group's description are shown at most, the first of these with which all have room."""

_PURPOSE = (
    "Tools are kept in groups, so that only those that a task needs have to be read. Each group holds tools for one "
    "kind of work."
)
_USE = f"Give the name of a group to read its tools; then run one of them with {CALL_TOOL}."

_CALL = (
    f"Runs a tool of a group. Read the group's tools with {GET_TOOLS} first and give arguments that fit the tool's "
    "inputSchema."
    '\n\nExample: {"group": "files", "name": "read_file", "args": {"path": "notes.txt"}}'
)

NO_GROUPS_TEXT = "没有可用的工具组"
_HOW = "以下是可用的工具组。需要某组的工具时，先查看该组，再调用其中的工具："
_LOOK = "查看一组的工具："
_RUN = "调用组内的工具（args 为 JSON 对象）："
_FAILED = "暂时无法使用的工具组："


def get_description(groups: GroupSet) -> str:
    """The description of ``get-modular-tools``: purpose, use, the groups that there are, those that failed.

    Doors cut descriptions at ``DESCRIPTION_BYTES``; so that no group is lost, all are described in fewer words then.
    """
    text = ""
    for chars in DESCRIPTION_STEPS:
        text = _get_description(groups, chars)
        if len(text.encode("utf-8", "replace")) <= DESCRIPTION_BYTES:
            break
    return text


def _get_description(groups: GroupSet, chars: int) -> str:
    lines = [_PURPOSE, "", _USE, "", "Available groups:"]
    lines += [_line(group, chars) for group in groups.available()]
    if failed := groups.failed():
        lines += ["", "Unavailable groups (connection failed):"]
        lines += [f"{_line(group, chars)} (Error: {group.error})" for group in failed]
    return "\n".join(lines)


def _line(group: Group, chars: int) -> str:
    text = group.description
    if len(text) > chars:
        text = text[:chars].rstrip() + "…"
    return f"- {group.name}: {text}"


def call_description() -> str:
    """The description of ``call-modular-tool``."""
    return _CALL


def group_list(groups: GroupSet) -> tuple[Piece, ...]:
    """``{{VCPToolGroups}}``: names and descriptions, and how a model asks for more. What came from afar is data."""
    if not groups.groups:
        return (_ours(NO_GROUPS_TEXT),)
    listed = [Piece(f"{_line(group, LISTED_CHARS)}\n", _source(group), group.trust) for group in groups.available()]
    failed = [Piece(f"- {group.name}: {group.error}\n", _source(group), Trust.DATA) for group in groups.failed()]
    pieces = [_ours(f"{_HOW}\n"), *_within_limit(listed)]
    if failed:
        pieces += [_ours(f"{_FAILED}\n"), *_within_limit(failed)]
    return (*pieces, _ours(_how_to_call()))


def _how_to_call() -> str:
    look = _block(GET_TOOLS, group="组名")
    run = _block(CALL_TOOL, group="组名", name="工具名", args='{"参数名": "值"}')
    return f"{_LOOK}\n{look}\n{_RUN}\n{run}"


def _block(tool: str, **fields: str) -> str:
    lines = [
        f"{name}:{markers.VALUE_START}{value}{markers.VALUE_END}"
        for name, value in (("tool_name", tool), *fields.items())
    ]
    return "\n".join((markers.TOOL_REQUEST_START, ",\n".join(lines), markers.TOOL_REQUEST_END))


def group_tools(group: Group) -> tuple[Piece, ...]:
    """``{{VCPToolGroup::NAME}}``: the full descriptions of a group's tools, each with its own trust."""
    pieces: list[Piece] = []
    for spec, text in described(group):
        if pieces:
            pieces.append(Piece(TOOL_SEPARATOR, _source(group), Trust.OPERATOR))
        pieces.append(Piece(text, f"tool:{spec.name}", Trust.OPERATOR if spec.origin == LOCAL else Trust.DATA))
    if not pieces:
        pieces.append(Piece(group.error or NO_TOOLS_YET, _source(group), Trust.DATA))
    return tuple(_within_limit(pieces))


NO_TOOLS_YET = "此工具组目前没有可用的工具"


def described(group: Group) -> Iterator[tuple[ToolSpec, str]]:
    """The text description of each tool of a group, with those commands only that are members."""
    commands: dict[str, tuple[ToolSpec, list[ToolCommand]]] = {}
    for member in group.members.values():
        offered = member.offered
        _, chosen = commands.setdefault(offered.spec.name, (offered.spec, []))
        chosen += (offered.command,) if offered.command is not None else offered.spec.commands
    for spec, chosen in commands.values():
        text = describe(_only(spec, chosen))
        if text is not None:
            yield spec, text


def _only(spec: ToolSpec, commands: list[ToolCommand]) -> ToolSpec:
    kept = tuple(command for command in spec.commands if command in commands)
    return spec if kept == spec.commands else replace(spec, commands=kept)


def _within_limit(pieces: list[Piece]) -> Iterator[Piece]:
    left = MAX_TEXT_CHARS
    for number, piece in enumerate(pieces):
        left -= len(piece.text)
        if left < 0:
            yield _ours(f"…（另有 {len(pieces) - number} 项）\n")
            return
        yield piece


def _ours(text: str) -> Piece:
    return Piece(text, "VCPToolGroups", Trust.OPERATOR)


def _source(group: Group) -> str:
    return f"tool_group:{group.name}"
