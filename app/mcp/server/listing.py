"""Our tools as MCP clients list them: one each, or one with a word for its commands (mcp.md MCP-15, MCP-20, MCP-25)."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import TypeVar

from mcp_types.methods import validate_server_result

from app.errors import BadRequestError, both
from app.extend import LOCAL, Json, ToolCommand, ToolSpec
from app.protocol.tool_values import clean
from app.tools.offers import DESCRIPTION_BYTES, OPEN_OBJECT, Offered, mcp_naming

log = logging.getLogger(__name__)

PAGE_SIZE = 200
"""Entries of one page of a list (MCP-15)."""

TITLE_CHARS = 200

COMMAND = "command"
"""The argument that chooses a command of a tool that has several (``MCPCommandEnum``)."""

STRUCTURED_SINCE = "2025-06-18"
"""The first revision with structured results, titles and links; revisions compare as texts."""

ANNOTATIONS_SINCE = "2025-03-26"
"""The first revision with annotations and audio."""

MODERN_SINCE = "2026-07-28"
"""The first revision without sessions."""

_HINTS: Mapping[str, type] = MappingProxyType(
    {"title": str, "readOnlyHint": bool, "destructiveHint": bool, "idempotentHint": bool, "openWorldHint": bool}
)

_LIST: Mapping[str, Json] = MappingProxyType({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShownTool:
    """One tool of the list. With ``choices`` an argument ``command`` says which of them is called."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None
    annotations: Mapping[str, Json] | None
    spec: ToolSpec
    full_name: str
    choices: Mapping[str, ShownTool] | None = None

    def written(self, revision: str) -> dict[str, Json]:
        """The entry of ``tools/list`` for a client that speaks this revision."""
        entry: dict[str, Json] = {"name": self.name, "inputSchema": dict(self.input_schema)}
        if self.description:
            entry["description"] = self.description
        if revision >= ANNOTATIONS_SINCE and self.annotations:
            entry["annotations"] = dict(self.annotations)
        if revision >= STRUCTURED_SINCE:
            if self.title and self.title != self.name:
                entry["title"] = self.title[:TITLE_CHARS]
            if self.output_schema is not None and writes_output(self.output_schema, revision):
                entry["outputSchema"] = dict(self.output_schema)
        return entry


def _presentable(tool: ShownTool, revision: str) -> dict[str, Json] | None:
    """The entry of a tool as the protocol can write it; one odd schema must not cost a client the whole list."""
    entry = tool.written(revision)
    open_entry: dict[str, Json] = {key: entry[key] for key in ("name", "title", "description") if key in entry}
    open_entry["inputSchema"] = dict(OPEN_OBJECT)
    for attempt in (entry, open_entry):
        try:
            cleaned: dict[str, Json] = clean(attempt)
            validate_server_result("tools/list", revision, {**_LIST, "tools": [cleaned]})
        except ValueError as error:  # pydantic's error is one too
            log.warning("tool %r is not listed as it is: %s", tool.name[:200], type(error).__name__)
            continue
        return cleaned
    return None


def writes_output(schema: Mapping[str, Json], revision: str) -> bool:
    """Whether a client of this revision may know of an output schema: only the newest one has others than objects."""
    return revision >= MODERN_SINCE or (revision >= STRUCTURED_SINCE and schema.get("type") == "object")


class ToolList:
    """The tools of a door, made anew when its offers are others.

    ``expander`` gives the function that puts operator values into the descriptions of tools on this machine (D31),
    another one when the values are others. With ``command_enum`` the commands of one tool are one entry.
    """

    def __init__(
        self,
        offered: Callable[[], tuple[Offered, ...]],
        command_enum: Callable[[], bool],
        expander: Callable[[], Callable[[str], str]] = lambda: str,
    ) -> None:
        self._offered = offered
        self._command_enum = command_enum
        self._expander = expander
        self._expand: Callable[[str], str] = str
        self._made_of: tuple[tuple[Offered, ...], bool, Callable[[str], str]] | None = None
        self._all: tuple[ShownTool, ...] = ()
        self._by_name: Mapping[str, ShownTool] = {}
        self._entries: dict[str, tuple[ShownTool, dict[str, dict[str, Json] | None]]] = {}

    def all(self) -> tuple[ShownTool, ...]:
        """All tools, by plugin, commands in their manifest's order (D69)."""
        offered, enum, expand = self._offered(), self._command_enum(), self._expander()
        made = self._made_of
        if made is None or made[0] is not offered or made[1] != enum or made[2] is not expand:
            self._expand = expand
            shown = tuple(self._together(offered) if enum else (self._shown(one) for one in offered))
            self._made_of = offered, enum, expand
            if shown != self._all:
                self._all = shown
            self._by_name = MappingProxyType({tool.name: tool for tool in self._all})
            self._entries = {name: kept for name, kept in self._entries.items() if name in self._by_name}
        return self._all

    def get(self, name: str) -> ShownTool | None:
        """The tool of this name; None for others, and for what the door does not show."""
        self.all()
        return self._by_name.get(name)

    def page(self, cursor: str | None, revision: str) -> tuple[list[dict[str, Json]], str | None]:
        """A page of ``tools/list`` for a client that speaks this revision, and the cursor of the next one.

        Only its entries are made, for with many thousand tools all of them would hold up everybody else. They are not
        to be changed. Raises BadRequestError for a cursor that no page gave.
        """
        shown, following = page(self.all(), cursor, lambda tool: tool.name)
        entries = (self._entry(tool, revision) for tool in shown)
        return [entry for entry in entries if entry is not None], following

    def _entry(self, tool: ShownTool, revision: str) -> dict[str, Json] | None:
        """The entry of a tool, made once: when one tool comes or goes all others stay as they are."""
        kept = self._entries.get(tool.name)
        if kept is None or (kept[0] is not tool and kept[0] != tool):
            kept = self._entries[tool.name] = (tool, {})
        if revision not in kept[1]:
            kept[1][revision] = _presentable(tool, revision)
        return kept[1][revision]

    def _shown(self, offered: Offered) -> ShownTool:
        command = offered.command
        return ShownTool(
            offered.name,
            offered.title,
            self._text(offered.description, offered.spec),
            offered.input_schema,
            command.output_schema if command is not None else None,
            _annotations(command),
            offered.spec,
            offered.full_name,
        )

    def _text(self, text: str, spec: ToolSpec) -> str:
        return self._expand(text) if spec.origin == LOCAL else text

    def _together(self, offered: Sequence[Offered]) -> Iterator[ShownTool]:
        """The tools with the commands of each in one entry; those that bring a name of their own keep it (D69)."""
        groups = [list(group) for _, group in groupby(offered, key=_whole_name)]
        merged = [group for group in groups if len(group) > 1]
        names = mcp_naming(
            *(
                [_name_of(group) for group in groups if (group[0].spec.origin == LOCAL) == local]
                for local in (True, False)
            )
        )
        for group in groups:
            name = names[_name_of(group)]
            yield self._one_of(name, group) if group in merged else self._shown(group[0])

    def _one_of(self, name: str, group: Sequence[Offered]) -> ShownTool:
        spec = group[0].spec
        choices = {one.full_name.removeprefix(f"{spec.name}."): self._shown(one) for one in group}
        texts = "\n\n".join(f"{word}: {one.description}" for word, one in choices.items())
        schema = {
            "type": "object",
            "properties": {COMMAND: {"type": "string", "enum": list(choices)}},
            "required": [COMMAND],
            "additionalProperties": True,
        }
        return ShownTool(name, spec.display, cut(texts), schema, None, None, spec, spec.name, MappingProxyType(choices))


def _whole_name(offered: Offered) -> tuple[str, str]:
    """Equal for the commands of one tool that have no name of their own."""
    dotted = offered.command is not None and offered.full_name.startswith(f"{offered.spec.name}.")
    return (offered.spec.name, "") if dotted else (offered.spec.name, offered.full_name)


def _name_of(group: Sequence[Offered]) -> str:
    return group[0].spec.name if len(group) > 1 else group[0].full_name


def _annotations(command: ToolCommand | None) -> Mapping[str, Json] | None:
    """The hints of the protocol, with values that it allows; others would cost a client the whole list."""
    if command is None or command.annotations is None:
        return None
    hints = {name: value for name, value in command.annotations.items() if isinstance(value, _HINTS.get(name, ()))}
    return hints or None


def cut(text: str) -> str:
    """A description that is not longer than the door shows (MCP-20)."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= DESCRIPTION_BYTES else data[:DESCRIPTION_BYTES].decode("utf-8", "ignore") + "…"


# --- pages ------------------------------------------------------------------------------------------------------------


def page(entries: Sequence[T], cursor: str | None, name: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """The entries behind ``cursor``, at most ``PAGE_SIZE``, and the cursor of the next page, if there is one.

    A cursor is the name of the last entry that was told, so that pages fit together while the list grows. Raises
    BadRequestError for one that no page gave (MCP-15).
    """
    begin = 0
    if cursor is not None:
        last = _name_in(cursor)
        begin = next((number for number, entry in enumerate(entries, 1) if name(entry) == last), 0)
        if last is None or begin == 0:
            raise BadRequestError(both("没有这个分页游标，请重新列出", "no page gave this cursor; list anew"))
    end = begin + PAGE_SIZE
    more = end < len(entries)
    return entries[begin:end], _cursor_of(name(entries[end - 1])) if more else None


def _cursor_of(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode("ascii")


def _name_in(cursor: str) -> str | None:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except (ValueError, binascii.Error):
        return None
