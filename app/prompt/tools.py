"""``{{VCP<Plugin>}}`` and ``{{VCPAllTools}}`` (3.2 C8, C9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from app.extend import LOCAL, Piece, ToolSpec, Trust
from app.prompt.limits import Budget
from app.prompt.pieces import NOT_DATA, PromptText
from app.protocol.prompt_texts import NO_TOOLS, TOOL_SEPARATOR
from app.tools.descriptions import describe

TOOL = re.compile(r"\{\{VCP([^{}\r\n]+)\}\}")
ALL_TOOLS = "AllTools"


class ToolDescriptions:
    """Replaces tool placeholders by the tools of one moment.

    Texts of manifests on this machine are operator text; those that came from nodes and MCP servers are data (D31).
    ``claimed`` says whether somebody else fills a placeholder: a tool from elsewhere does not take it away (B16).
    """

    def __init__(
        self, tools: Mapping[str, ToolSpec], claimed: Callable[[str], bool] = lambda placeholder: False
    ) -> None:
        self._tools = tools
        self._claimed = claimed

    def expand(self, text: PromptText, budget: Budget) -> PromptText:
        """Put in the descriptions that ``text`` asks for; tools without one and unknown names stay as written."""

        def resolve(match: re.Match[str]) -> tuple[Piece, ...] | None:
            name = match[1]
            piece = self._piece(name)
            if piece is not None and (piece.trust is Trust.OPERATOR or not self._is_taken(name, match[0])):
                pieces: tuple[Piece, ...] = (piece,)
            elif name == ALL_TOOLS:
                pieces = self._all()
            else:
                return None
            budget.spend(f"VCP{name}", pieces)
            return pieces

        return text.replace(TOOL, resolve, NOT_DATA)

    def _is_taken(self, name: str, placeholder: str) -> bool:
        return name == ALL_TOOLS or self._claimed(placeholder)

    def _piece(self, name: str) -> Piece | None:
        spec = self._tools.get(name)
        text = describe(spec) if spec is not None else None
        if spec is None or text is None:
            return None
        return Piece(text, f"tool:{name}", Trust.OPERATOR if spec.origin == LOCAL else Trust.DATA)

    def _all(self) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        for name in self._tools:
            piece = self._piece(name)
            if piece is not None:
                if pieces:
                    pieces.append(Piece(TOOL_SEPARATOR, f"VCP{ALL_TOOLS}", Trust.OPERATOR))
                pieces.append(piece)
        return tuple(pieces) or (Piece(NO_TOOLS, f"VCP{ALL_TOOLS}", Trust.OPERATOR),)
