"""The passage that is most like a text that no note has: what an edit reports that found nothing (memory.md 1.6)."""

from __future__ import annotations

import difflib
from collections import Counter

from app.errors import both

MAX_COMPARED_CHARS = 8_000_000
"""Characters of passages that are compared in all; notes behind them are not looked at."""

MAX_TARGET_CHARS = 1000
MAX_PASSAGE_CHARS = 3000
LEAST_LIKENESS = 0.5
_UNCHANGED_SHOWN = 12


class Nearest:
    """Looks at notes one by one and keeps the best passage: as many lines as ``target`` has. Linear in the notes."""

    def __init__(self, target: str) -> None:
        self._target = target.replace("\r\n", "\n").strip()[:MAX_TARGET_CHARS]
        self._pairs = Counter(_pairs(self._target))
        self._lines = self._target.count("\n") + 1
        self._left = MAX_COMPARED_CHARS
        self._best = (0.0, "", "")

    def look(self, name: str, text: str) -> None:
        """Compare a note's passages."""
        lines = text.replace("\r\n", "\n").split("\n")
        for start in range(max(1, len(lines) - self._lines + 1)):
            passage = "\n".join(lines[start : start + self._lines])
            self._left -= len(passage)
            if self._left < 0:
                return
            shared = self._shared(passage)
            if shared > self._best[0]:
                self._best = (shared, name, passage)

    def _shared(self, passage: str) -> float:
        """How many of the target's pairs of characters the passage has, 0 to 1."""
        if not self._pairs or len(passage) > MAX_PASSAGE_CHARS:
            return 0.0
        pairs = Counter(_pairs(passage))
        common = sum(min(count, pairs[pair]) for pair, count in self._pairs.items() if pair in pairs)
        return common / self._pairs.total()

    def report(self) -> str:
        """What to change in ``target`` so that it fits; empty when nothing is like it."""
        likeness, name, passage = self._best
        if likeness < LEAST_LIKENESS:
            return ""
        passage = _narrowed(self._target, passage)
        told = both(
            f"最接近的原文在 {name}（相似度 {likeness:.0%}）",
            f"the nearest passage is in {name} ({likeness:.0%} alike)",
        )
        shown = both("差异（[-target 中-]{+原文中+}）", "differences ([-in target-]{+in the note+})")
        return f"\n{told}:\n{passage}\n{shown}:\n{_differences(self._target, passage)}"


def _pairs(text: str) -> list[str]:
    return [text[place : place + 2] for place in range(len(text) - 1)]


def _narrowed(target: str, passage: str) -> str:
    """The part of a long line that is like the target."""
    blocks = difflib.SequenceMatcher(None, target, passage, autojunk=False).get_matching_blocks()
    long = [block for block in blocks if block.size > 2] or blocks
    first, last = long[0], long[-1] if long[-1].size else long[max(0, len(long) - 2)]
    start = max(0, first.b - first.a)
    end = min(len(passage), last.b + last.size + (len(target) - last.a - last.size))
    return passage[start:end]


def _differences(target: str, passage: str) -> str:
    parts: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, target, passage, autojunk=False).get_opcodes():
        if kind == "equal":
            same = target[a:b]
            cut = f"{same[:_UNCHANGED_SHOWN]}…{same[-_UNCHANGED_SHOWN:]}"
            parts.append(same if len(same) <= 2 * _UNCHANGED_SHOWN else cut)
            continue
        parts.append((f"[-{target[a:b]}-]" if b > a else "") + (f"{{+{passage[c:d]}+}}" if d > c else ""))
    return "".join(parts)
