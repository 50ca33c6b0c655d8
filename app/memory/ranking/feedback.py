"""What the best fragments say about the question's things in other words: names that one note explains and others use.

A question knows a thing by its description, one note says what it is called, and the notes that answer use that name
alone. So the words of the sentence that is nearest to the question, in each of the best fragments, are searched for too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

SOURCES = 3
"""Fragments that are read again."""

LEAST_SHARED = 2
"""Words of the question that a sentence has at least; with fewer it is about something else."""

MOST_WORDS = 16
"""Words that one sentence gives."""

WEIGHT = 0.25
"""What a fragment gains that has the most of these words."""

MOST_CHARS = 4_000
_SENTENCE = re.compile(r"[^。！？!?；;\n]+")


def bridging_words(question: Sequence[str], texts: Sequence[str], words_of: Callable[[str], list[str]]) -> list[str]:
    """New words of the sentences that share most with the question, one sentence of each text; each word once."""
    asked = frozenset(question)
    found: list[str] = []
    for text in texts:
        best: list[str] = []
        shared = LEAST_SHARED - 1
        for sentence in _SENTENCE.findall(text[:MOST_CHARS]):
            words = words_of(sentence)
            common = sum(word in asked for word in words)
            if common > shared:
                best, shared = words, common
        found += [word for word in best if word not in asked][:MOST_WORDS]
    return list(dict.fromkeys(found))


def bridge_gains(found: Sequence[tuple[int, float]], sources: Sequence[int]) -> dict[int, float]:
    """What each found fragment gains: ``WEIGHT`` for the one with the best score, the others by theirs.

    ``sources`` have the words anyway and gain nothing.
    """
    others = {chunk: score for chunk, score in found if chunk not in sources and score > 0}
    top = max(others.values(), default=0.0)
    return {chunk: WEIGHT * score / top for chunk, score in others.items()}
