"""The arguments that go to one tool of an MCP server: prepared, and checked by its schema (MCP-55, P86, P88)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from app.extend import Json, ToolCall
from app.mcp.client.results import sent_arguments
from app.mcp.client.status import Tool
from app.protocol import markers
from app.protocol.arguments import fold
from app.tools.schemas.check import SchemaCheck, SchemaError

log = logging.getLogger(__name__)

_OURS = frozenset(
    fold(key)
    for key in (
        markers.KEY_MAID,
        markers.KEY_VALET,
        markers.KEY_TOOL_PASSWORD,
        markers.KEY_TIMELY_CONTACT,
        markers.KEY_TIMED_CALL,
    )
)
"""Words of a marked call that are no arguments of the tool, unless it declares them."""


class SentArguments:
    """Prepares the arguments of calls of one tool; its schema is made ready at the first call."""

    def __init__(self, tool: Tool) -> None:
        self._name = str(tool["name"])
        self._schema: Mapping[str, Json] = tool.get("inputSchema") or {}
        properties = self._schema.get("properties")
        self._declared: Mapping[str, Json] = properties if isinstance(properties, Mapping) else {}
        self._check: SchemaCheck | None = None
        self._unusable = False

    async def of(self, call: ToolCall) -> tuple[dict[str, Json], str]:
        """The arguments to send, and what is wrong with them (empty: nothing)."""
        if self._check is None and not self._unusable:
            try:
                self._check = await asyncio.to_thread(SchemaCheck, self._schema)
            except SchemaError as error:
                self._unusable = True
                log.warning("arguments of tool %s are not checked, its schema cannot be used: %s", self._name, error)
        unsaid = frozenset(
            [
                name
                for name in call.arguments
                if name not in self._declared and self._is_ours(name, call.arguments[name])
            ]
        )
        arguments = sent_arguments(call.arguments, self._schema, unsaid)
        if self._check is None:
            return arguments, ""  # the server will say what it thinks of them
        fault = self._check.fault(arguments)
        return arguments, "" if fault is None else f"{fault.path}: {fault.reason}"

    def _is_ours(self, name: str, value: Json) -> bool:
        """Whether a name is a word of our protocol; so is ``command`` where it only repeats the tool's name."""
        folded = fold(name)
        return folded in _OURS or (folded == "command" and value == self._name)
