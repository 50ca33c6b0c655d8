"""What a prompt would become, piece by piece, for those who write it; nothing is run and no model is asked.

Sources whose work costs something (recall, plugins) are looked for and not asked: their placeholders stay, marked as
filled later. What nothing fills is marked as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.extend import Filling, Found, Piece, PlaceholderSource, PromptContext, Trust
from app.prompt.engine import PromptEngine
from app.prompt.pieces import NOT_DATA, PromptText
from app.prompt.scope import SYSTEM
from app.protocol.token_estimate import estimated_tokens

MAX_TEXT_CHARS = 1_000_000
"""Of a text to preview."""

MAX_SHOWN_CHARS = 100_000
MAX_PIECES = 4_000
"""What is shown of the result; the count of tokens is that of all."""

LATER, UNKNOWN = "later:", "unknown"

_LEFT = re.compile(r"\{\{([^{}\r\n]{1,300})\}\}|<<((?:Tar|Var|SarPrompt)[^<>\r\n]{1,200})>>")
_BY_STEPS = re.compile(r"(VCPTavern|Workspace)::.+")
"""Words that a step of the request takes out before anything is expanded."""


class Mark(StrEnum):
    """What a shown piece is."""

    TEXT = "text"
    LATER = "later"  # a placeholder that is filled in a chat
    UNKNOWN = "unknown"  # a placeholder that nothing fills


@dataclass(frozen=True, slots=True)
class ShownPiece:
    """A run of the result: its text, where it came from, whether it is data; ``mark`` for placeholders left in it."""

    text: str
    source: str
    trust: Trust
    mark: Mark = Mark.TEXT


@dataclass(frozen=True, slots=True)
class Preview:
    """The result. ``tokens`` is an estimate; ``later`` and ``unknown`` are the placeholders left, each once."""

    pieces: tuple[ShownPiece, ...]
    tokens: int
    characters: int
    cut: bool
    later: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Where pieces came from, each once, in the order of the text."""
        return tuple(dict.fromkeys(piece.source for piece in self.pieces if piece.mark is Mark.TEXT))


class LookedFor:
    """A placeholder source in whose place nothing is asked: what it would fill is remembered and stays as written."""

    def __init__(self, source: PlaceholderSource) -> None:
        self.name = source.name
        self.roles = source.roles
        self.trust = source.trust
        self.after_detectors = source.after_detectors
        self.pattern = source.pattern
        self.found: dict[str, None] = {}

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str | Filling]:
        """See ``PlaceholderSource``."""
        del context
        self.found |= dict.fromkeys(item.text for item in found)
        return {}


async def previewed(engine: PromptEngine, unasked: Sequence[LookedFor], text: str, *, role: str, model: str) -> Preview:
    """Expand ``text`` as a message of ``role`` for ``model`` and mark what is left.

    ``unasked`` are those sources of ``engine`` that are only looked for. Raises PromptLimitError.
    """
    expanded = await engine.expand([{"role": role, "content": text}], model)
    result = expanded.slots[0].text if expanded.slots else PromptText(())
    whole = result.join()
    later = {found: source.name for source in unasked for found in source.found}
    for found in sorted(later, key=len, reverse=True):
        result = result.replace_literals((found,), _left(found, LATER + later[found]), NOT_DATA)
    unknown: dict[str, None] = {}

    def resolve(match: re.Match[str]) -> tuple[Piece, ...] | None:
        step = _BY_STEPS.fullmatch(match[1] or "")
        if match[0] in later:
            return None
        if step is not None:
            later[match[0]] = step[1]
            return (Piece(match[0], LATER + step[1], Trust.OPERATOR),)
        unknown[match[0]] = None
        return (Piece(match[0], UNKNOWN, Trust.OPERATOR),)

    if role == SYSTEM:
        result = result.replace(_LEFT, resolve, NOT_DATA)
    pieces, cut = _shown(result.pieces)
    return Preview(pieces, estimated_tokens(whole), len(whole), cut, tuple(later), tuple(unknown))


def _left(text: str, source: str) -> Callable[[], Sequence[Piece]]:
    """What puts a placeholder back where it was, marked."""
    pieces = (Piece(text, source, Trust.OPERATOR),)
    return lambda: pieces


def _shown(pieces: Sequence[Piece]) -> tuple[tuple[ShownPiece, ...], bool]:
    shown: list[ShownPiece] = []
    left = MAX_SHOWN_CHARS
    for piece in pieces:
        if not piece.text:
            continue
        if left <= 0 or len(shown) >= MAX_PIECES:
            return tuple(shown), True
        text = piece.text[:left]
        left -= len(text)
        if piece.source.startswith(LATER):
            shown.append(ShownPiece(text, piece.source.removeprefix(LATER), piece.trust, Mark.LATER))
        elif piece.source == UNKNOWN:
            shown.append(ShownPiece(text, "", piece.trust, Mark.UNKNOWN))
        else:
            shown.append(ShownPiece(text, piece.source, piece.trust))
        if len(text) < len(piece.text):
            return tuple(shown), True
    return tuple(shown), False
