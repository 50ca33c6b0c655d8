"""A chunk beside a good one is better than it looks: smoothing inside a note (memory.md 8.3, 11.9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NEIGHBOUR_SHARE = 0.5
"""How much of the best neighbour's score is added (measured: 8.3)."""

ALONE = 0.7
"""A chunk that is its whole note gains as if it had a neighbour with this part of its own score. Without that, long
notes would come before short ones only because they have more chunks."""


def beside(chunks: Sequence[int], place: int) -> list[int]:
    """The chunks right before and after a place, in the note's own order."""
    return [*chunks[max(0, place - 1) : place], *chunks[place + 1 : place + 2]]


def missing_neighbours(scores: Mapping[int, float], notes: Mapping[int, Sequence[int]]) -> list[int]:
    """The neighbours of scored chunks that have no score yet, in the order of the notes, each once."""
    found = (
        other
        for chunks in notes.values()
        for place, chunk in enumerate(chunks)
        if chunk in scores
        for other in beside(chunks, place)
    )
    return [other for other in dict.fromkeys(found) if other not in scores]


def neighbour_gains(
    scores: Mapping[int, float], notes: Mapping[int, Sequence[int]], share: float = NEIGHBOUR_SHARE
) -> dict[int, float]:
    """What each chunk gains: ``share`` of the greatest of its two neighbours' scores.

    ``notes`` gives the chunk ids of each note in their order. A gain comes from unsmoothed scores, so it reaches one
    chunk far, and a neighbour without a score gives nothing. It is never more than the share of what the neighbour has,
    so a chunk overtakes its better neighbour only by a score of its own. See ``ALONE`` for notes of one chunk.
    """
    gains: dict[int, float] = dict.fromkeys(scores, 0.0)
    for chunks in notes.values():
        if len(chunks) == 1 and chunks[0] in scores:
            gains[chunks[0]] = share * ALONE * max(0.0, scores[chunks[0]])
            continue
        for place, chunk in enumerate(chunks):
            if chunk not in scores:
                continue
            best = max((scores[other] for other in beside(chunks, place) if other in scores), default=0.0)
            gains[chunk] = share * max(0.0, best)
    return gains
