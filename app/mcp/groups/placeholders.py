"""``{{VCPToolGroups}}``, ``{{VCPToolGroup::NAME}}`` and ``{{VCP<group>}}``: what stands for groups in prompts."""

from __future__ import annotations

from collections.abc import Sequence

from app.extend import Piece
from app.mcp.groups.groups import GroupSet
from app.mcp.groups.texts import group_list, group_tools

ALL_GROUPS = "ToolGroups"
ONE_GROUP = "ToolGroup::"


def group_texts(groups: GroupSet, name: str) -> Sequence[Piece] | None:
    """What stands for ``{{VCP<name>}}``, where that means groups; None for other names.

    A bare name means the tools of an MCP server; it is only asked for where no tool has that name.
    """
    if name == ALL_GROUPS:
        return group_list(groups)
    if name.startswith(ONE_GROUP):
        group = groups.groups.get(name.removeprefix(ONE_GROUP))
        return None if group is None else group_tools(group)
    group = groups.groups.get(name)
    return group_tools(group) if group is not None and group.server else None
