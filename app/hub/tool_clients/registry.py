"""The tools that tool clients have registered (WS-4 - WS-7), and how other doors describe them (WS-17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from app.errors import both
from app.extend import Json, ToolCommand, ToolSpec
from app.hub.clients import Client
from app.hub.tool_clients.arguments import ArgumentCheck
from app.protocol.tool_socket import (
    ErrorCode,
    ToolSocketError,
    checked_schema,
    no_such_tool,
    timeout_seconds,
    tool_name,
)
from app.tools.schemas.text import example_call, parameter_lines

ORIGIN = "socket:"
"""What stands before the client's id in ``ToolSpec.origin``."""

DESCRIPTION_CHARS = 4000
"""Of the description that a client gives; what it registered is passed on whole."""


@dataclass(frozen=True, slots=True)
class RegistryLimits:
    """How much may be registered; sizes in bytes of JSON."""

    tools: int = 4096
    tools_of_client: int = 256
    schema_bytes: int = 256 * 1024
    schema_bytes_of_client: int = 2 * 1024 * 1024
    schema_bytes_in_all: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredTool:
    """One tool and who owns it. ``schema`` is as it came, ``written`` the same as JSON; ``seconds`` its own limit."""

    name: str
    owner: Client
    schema: Mapping[str, Json]
    written: orjson.Fragment
    size: int
    check: ArgumentCheck
    seconds: float | None
    description: str
    registered_at: float

    def spec(self, seconds: float) -> ToolSpec:
        """The tool as an ordinary one; ``seconds`` is the limit of those that have none of their own."""
        command = ToolCommand(
            id=self.name,
            command="",
            description=_description(self),
            example=example_call(self.name, self.schema),
            parameters=self.schema,
            typed=True,
        )
        return ToolSpec(
            name=self.name,
            origin=ORIGIN + self.owner.id,
            display=self.name,
            commands=(command,),
            timeout=self.seconds if self.seconds is not None else seconds,
        )


class ToolRegistry:
    """One entry for each name."""

    def __init__(self, limits: RegistryLimits) -> None:
        self._limits = limits
        self._tools: dict[str, RegisteredTool] = {}

    def get(self, name: str) -> RegisteredTool | None:
        """The tool of this name."""
        return self._tools.get(name)

    def all(self) -> tuple[RegisteredTool, ...]:
        """All tools, by name."""
        return tuple(tool for _, tool in sorted(self._tools.items()))

    def owned_by(self, client: Client) -> tuple[RegisteredTool, ...]:
        """The tools of a client, in the order in which they came."""
        return tuple(tool for tool in self._tools.values() if tool.owner is client)

    def register(self, client: Client, data: Mapping[str, Json], taken: bool, now: float) -> RegisteredTool:
        """Enter what ``data`` describes, in place of the client's own tool of this name (WS-5).

        ``taken`` says that the server itself has a tool of this name. Raises ToolSocketError.
        """
        name = tool_name(data)
        plain = checked_schema(data)
        schema: Mapping[str, Json] = data["schema"]
        written = self._written(schema)
        check = ArgumentCheck(plain)
        seconds = timeout_seconds(data)
        held = self._tools.get(name)
        if taken or (held is not None and held.owner is not client):
            raise ToolSocketError(
                ErrorCode.TOOL_EXISTS, both(f'已有名为 "{name}" 的工具', f'a tool called "{name}" exists already')
            )
        self._make_room(client, len(written), held)
        described = data.get("description")
        tool = RegisteredTool(
            name=name,
            owner=client,
            schema=schema,
            written=orjson.Fragment(written),
            size=len(written),
            check=check,
            seconds=seconds,
            description=described[:DESCRIPTION_CHARS] if isinstance(described, str) else "",
            registered_at=now,
        )
        self._tools[name] = tool
        return tool

    def unregister(self, client: Client, data: Mapping[str, Json]) -> RegisteredTool:
        """Take out a client's own tool; raises ToolSocketError (WS-6)."""
        name = tool_name(data)
        tool = self._tools.get(name)
        if tool is None or tool.owner is not client:
            raise no_such_tool(name)
        return self._tools.pop(name)

    def remove_all(self, client: Client) -> tuple[RegisteredTool, ...]:
        """Take out all tools of a client, and give them back."""
        gone = self.owned_by(client)
        for tool in gone:
            del self._tools[tool.name]
        return gone

    def _written(self, schema: Mapping[str, Json]) -> bytes:
        try:
            written = orjson.dumps(schema)
        except TypeError:  # deeper than the library goes, below a keyword that is ignored
            written = b""
        if not 0 < len(written) <= self._limits.schema_bytes:
            limit = self._limits.schema_bytes // 1024
            raise ToolSocketError(
                ErrorCode.INVALID_SCHEMA,
                both(f"schema 过深，或大于 {limit} KiB", f"the schema is too deep, or larger than {limit} KiB"),
            )
        return written

    def _make_room(self, client: Client, size: int, held: RegisteredTool | None) -> None:
        others = [tool for tool in self._tools.values() if tool is not held]
        own = [tool for tool in others if tool.owner is client]
        limits = self._limits
        if (
            len(others) >= limits.tools
            or len(own) >= limits.tools_of_client
            or size + sum(tool.size for tool in own) > limits.schema_bytes_of_client
            or size + sum(tool.size for tool in others) > limits.schema_bytes_in_all
        ):
            raise ToolSocketError(
                ErrorCode.SERVER_ERROR,
                both("已注册的工具过多或过大", "too many tools are registered, or too large ones"),
            )


def _description(tool: RegisteredTool) -> str:
    """What a model reads of the tool: its description and its parameters."""
    about = tool.description.strip() or both("由已连接的客户端提供的工具", "a tool of a connected client")
    return "\n".join((about, *parameter_lines(tool.schema)))
