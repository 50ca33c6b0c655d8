"""A budget in tokens (memory.md 11.17): fragments go from the tail, and none is cut inside a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.memory.ranking.requests import Hit

_SENTENCE_END = re.compile(r"[。！？!?…\n]+[”’」』）)\"']*|(?<![0-9])\.(?=\s)")


def kept_within(hits: Sequence[Hit], tokens: int) -> int:
    """How many hits from the front fit into the budget together."""
    left = tokens
    for place, hit in enumerate(hits):
        left -= max(0, hit.tokens)
        if left < 0:
            return place
    return len(hits)


def shortened(hit: Hit, tokens: int, estimate: Callable[[str], int]) -> Hit | None:
    """The hit with as many whole sentences from its start as fit; None when not even the first does."""
    kept = ""
    for end in [*(found.end() for found in _SENTENCE_END.finditer(hit.text)), len(hit.text)]:
        if estimate(hit.text[:end]) > tokens:
            break
        kept = hit.text[:end]
    kept = kept.rstrip()
    return replace(hit, text=kept, tokens=estimate(kept)) if kept else None
