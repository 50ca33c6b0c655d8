"""What is injected of a chosen chunk: itself, or with ``::Expand`` its whole note (memory.md 2.5, 11.17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.memory.index.records import ChunkRecord, SearchableIndex
from app.memory.ranking.budget import kept_within, shortened
from app.memory.ranking.requests import Dropped, Hit


def whole_text(chunks: Sequence[ChunkRecord]) -> str:
    """A note's text out of its overlapping chunks, in their order; where characters lie between two, a line break."""
    pieces: list[str] = []
    reached = 0
    for chunk in sorted(chunks, key=lambda one: (one.start, one.ordinal)):
        if chunk.end <= reached:
            continue
        if pieces and chunk.start > reached:
            pieces.append("\n")
        pieces.append(chunk.text[max(0, reached - chunk.start) :])
        reached = chunk.end
    return "".join(pieces)


async def expanded(
    index: SearchableIndex, hits: Sequence[Hit], estimate: Callable[[str], int], tokens: int
) -> list[Hit]:
    """Each hit with its whole note as text, each note once, at its best hit's place.

    A note that alone is more than ``tokens`` stays the chunk, because nothing is cut inside a sentence.
    """
    notes = await index.chunks_of_notes(list(dict.fromkeys(hit.chunk.note_id for hit in hits)))
    records = await index.chunks([chunk for chunks in notes.values() for chunk in chunks])
    result: list[Hit] = []
    whole: set[int] = set()
    for hit in hits:
        note = hit.chunk.note_id
        if note in whole:
            continue
        text = whole_text([records[chunk] for chunk in notes.get(note, []) if chunk in records])
        size = estimate(text)
        if not text or size > tokens:
            result.append(hit)
            continue
        whole.add(note)
        result.append(replace(hit, text=text, tokens=size))
    return result


def fitting(
    main: Sequence[Hit],
    timely: Sequence[Hit],
    second: Sequence[Hit],
    tokens: int,
    time_share: float,
    estimate: Callable[[str], int],
) -> tuple[list[Hit], list[Hit], list[Hit], list[Dropped]]:
    """What fits into the budget: each list loses its tail, the second hop first.

    The time path is sure of its share of the tokens, and what it leaves is the main list's. A first hit that alone is
    too large is shortened to whole sentences.
    """
    limit = max(0, tokens)
    reserved = int(limit * min(1.0, max(0.0, time_share))) if timely and main else 0
    kept_main = _prefix(main, limit - reserved, estimate)
    left = limit - _size(kept_main)
    kept_time = _prefix(timely, left, estimate)
    left -= _size(kept_time)
    if len(kept_main) < len(main) and left > 0:
        more = kept_within(main[len(kept_main) :], left) if kept_main else 0
        kept_main = [*kept_main, *main[len(kept_main) : len(kept_main) + more]]
        left = limit - _size(kept_main) - _size(kept_time)
    kept_second = list(second[: kept_within(second, left)])
    lost = [*main[len(kept_main) :], *timely[len(kept_time) :], *second[len(kept_second) :]]
    return kept_main, kept_time, kept_second, [Dropped(hit.chunk.id, hit.score, "budget") for hit in lost]


def _prefix(hits: Sequence[Hit], tokens: int, estimate: Callable[[str], int]) -> list[Hit]:
    fit = kept_within(hits, tokens)
    if fit or not hits:
        return list(hits[:fit])
    first = shortened(hits[0], tokens, estimate)
    return [first] if first is not None else []


def _size(hits: Sequence[Hit]) -> int:
    return sum(max(0, hit.tokens) for hit in hits)
