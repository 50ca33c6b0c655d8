"""``{{VCP<Plugin>}}`` and ``{{VCPAllTools}}`` (3.2 C8, C9), and what stands for groups of tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.extend import GROUPS, LOCAL, Piece, ToolSpec, Trust
from app.prompt.limits import Budget
from app.prompt.pieces import NOT_DATA, PromptText
from app.protocol.prompt_texts import NO_TOOLS, TOOL_SEPARATOR
from app.tools.descriptions import describe

TOOL = re.compile(r"\{\{VCP([^{}\r\n]+)\}\}")
ALL_TOOLS = "AllTools"

FurtherTexts = Callable[[str], Sequence[Piece] | None]
"""What stands for ``{{VCP<name>}}`` beside the tools, by ``name``; None for what is no name of these."""


def no_further_texts(name: str) -> None:
    """The ``FurtherTexts`` of those who have none."""


@dataclass(frozen=True, slots=True)
class DescribedTools:
    """What prompts can say of tools: those of now, and what else stands for tools now."""

    specs: Callable[[], Mapping[str, ToolSpec]]
    further: Callable[[], FurtherTexts] = lambda: no_further_texts


class ToolDescriptions:
    """Replaces tool placeholders by the tools of one moment.

    Texts of manifests on this machine are operator text; those that came from nodes and MCP servers are data (D31).
    ``claimed`` says whether somebody else fills a placeholder: a tool from elsewhere does not take it away (B16), and
    neither does what ``further`` has for names that are no tool's, such as groups.
    """

    def __init__(
        self,
        tools: Mapping[str, ToolSpec],
        claimed: Callable[[str], bool] = lambda placeholder: False,
        further: FurtherTexts = no_further_texts,
    ) -> None:
        self._tools = tools
        self._claimed = claimed
        self._further = further

    def expand(self, text: PromptText, budget: Budget) -> PromptText:
        """Put in the descriptions that ``text`` asks for; tools without one and unknown names stay as written."""

        def resolve(match: re.Match[str]) -> tuple[Piece, ...] | None:
            name = match[1]
            piece = self._piece(name)
            if piece is not None and (piece.trust is Trust.OPERATOR or not self._is_taken(name, match[0])):
                pieces: tuple[Piece, ...] = (piece,)
            elif name == ALL_TOOLS:
                pieces = self._all()
            elif (found := self._further(name)) is not None and not self._is_taken(name, match[0]):
                pieces = tuple(found)
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
        for name, spec in self._tools.items():
            piece = self._piece(name)
            if piece is not None and spec.origin != GROUPS:  # these only lead to what is listed here anyway
                if pieces:
                    pieces.append(Piece(TOOL_SEPARATOR, f"VCP{ALL_TOOLS}", Trust.OPERATOR))
                pieces.append(piece)
        return tuple(pieces) or (Piece(NO_TOOLS, f"VCP{ALL_TOOLS}", Trust.OPERATOR),)
