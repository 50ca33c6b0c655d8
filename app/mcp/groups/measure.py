"""How much context groups save: descriptions of all tools against those of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.extend import Json
from app.mcp.groups.groups import Group, GroupSet
from app.mcp.groups.placeholders import group_texts
from app.mcp.groups.texts import described
from app.mcp.groups.tools import listed_tools, tool_entry
from app.protocol.json_text import compact_json
from app.protocol.prompt_texts import TOOL_SEPARATOR
from app.protocol.token_estimate import estimated_tokens


@dataclass(frozen=True, slots=True)
class Size:
    """UTF-8 bytes, and tokens by the estimate of ``token_estimate``."""

    bytes: int
    tokens: int

    @classmethod
    def of(cls, text: str) -> Size:
        """The size of a text."""
        return cls(len(text.encode("utf-8", "replace")), estimated_tokens(text))

    def told(self) -> dict[str, Json]:
        """As JSON."""
        return {"bytes": self.bytes, "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a model reads in each way: as ``tools/list`` and as text in a prompt; ``largest`` is one group's answer."""

    groups: int
    tools: int
    flat: Size
    modular: Size
    flat_text: Size
    modular_text: Size
    largest: Size

    def told(self) -> dict[str, Json]:
        """As JSON, with the part of the flat way that is left."""
        return {
            "groups": self.groups,
            "tools": self.tools,
            "tools/list": {"flat": self.flat.told(), "modular": self.modular.told(), **_left(self.flat, self.modular)},
            "prompt": {
                "{{VCPAllTools}}": self.flat_text.told(),
                "{{VCPToolGroups}}": self.modular_text.told(),
                **_left(self.flat_text, self.modular_text),
            },
            "largest group": self.largest.told(),
            "tokens are": "estimated: one for each Chinese, Japanese or Korean character, one for each four others",
        }


def _left(flat: Size, modular: Size) -> Mapping[str, Json]:
    return {"modular is": f"{100 * modular.tokens / flat.tokens:.1f} % of the tokens" if flat.tokens else "-"}


def measured(groups: GroupSet) -> Measured:
    """Measure the groups of one moment; a tool that is in several counts once."""
    entries: dict[str, str] = {}
    texts: dict[str, str] = {}
    largest = Size(0, 0)
    for group in groups.groups.values():
        for member in group.members.values():
            name = member.offered.full_name
            entries[name] = compact_json({**tool_entry(group, member, full=False), "name": name})
        texts.update((spec.name, text) for spec, text in described(group))
        largest = max(largest, Size.of(_shown(group)), key=lambda size: size.tokens)
    pieces = group_texts(groups, "ToolGroups") or ()
    return Measured(
        groups=len(groups.groups),
        tools=len(entries),
        flat=Size.of(f"[{','.join(entries.values())}]"),
        modular=Size.of(compact_json(listed_tools(groups))),
        flat_text=Size.of(TOOL_SEPARATOR.join(texts.values())),
        modular_text=Size.of("".join(piece.text for piece in pieces)),
        largest=largest,
    )


def _shown(group: Group) -> str:
    return compact_json([tool_entry(group, member, full=False) for member in group.members.values()])
