"""What one request's prompt may cost, and the count of what it has cost so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import PromptLimitError, both
from app.extend import Piece


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """Bounds of one expansion.

    ``depth`` counts agents and variable files inside each other, ``characters`` and ``insertions`` everything that is
    put in (text that moves through three levels counts three times), ``found`` the distinct placeholders of one
    source, ``source_seconds`` the time that all sources of a phase have together.
    """

    depth: int = 20
    characters: int = 20_000_000
    insertions: int = 100_000
    found: int = 1_000
    source_seconds: float = 30.0


class Budget:
    """Counts what one request inserts, so that no prompt can multiply itself without end ("billion laughs")."""

    __slots__ = ("_characters", "_insertions", "_limits")

    def __init__(self, limits: PromptLimits) -> None:
        self._limits = limits
        self._characters = 0
        self._insertions = 0

    def spend(self, name: str, pieces: Sequence[Piece]) -> None:
        """Count one insertion of ``pieces`` for the agent, variable or source ``name``.

        Called before the pieces are put in, once for each occurrence. Raises PromptLimitError that names ``name``.
        """
        self._insertions += max(1, len(pieces))
        self._characters += sum(len(piece.text) for piece in pieces)
        if self._insertions > self._limits.insertions:
            raise PromptLimitError(
                both(
                    f"展开 '{name}' 时提示词的插入次数超过 {self._limits.insertions}，请检查是否有文本反复互相包含",
                    f"the prompt grew past {self._limits.insertions} insertions while expanding '{name}'; "
                    "look for texts that include each other many times",
                )
            )
        if self._characters > self._limits.characters:
            raise PromptLimitError(
                both(
                    f"展开 '{name}' 时提示词插入的字符超过 {self._limits.characters}，请检查是否有文本反复互相包含",
                    f"the prompt grew past {self._limits.characters} inserted characters while expanding '{name}'; "
                    "look for texts that include each other many times",
                )
            )

    def descend(self, name: str, depth: int) -> None:
        """Check that ``name`` may be expanded inside ``depth`` others. Raises PromptLimitError that names it."""
        if depth >= self._limits.depth:
            raise PromptLimitError(
                both(
                    f"'{name}' 在 Agent 和变量中的嵌套超过 {self._limits.depth} 层",
                    f"'{name}' is nested more than {self._limits.depth} levels deep in agents and variables",
                )
            )

    @property
    def depth(self) -> int:
        """How many texts may be inside each other."""
        return self._limits.depth
