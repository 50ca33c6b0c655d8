"""How well the notes of an installation are found, asked with sentences of these notes (memory.md 11.30).

Two kinds of questions. ``sentence``: a sentence of a note, which is to be found again; a note that is not is lost to
words and meaning. ``left_out``: the note of the sentence is left out of the answer, right are the other notes that
share one of its rarer tags; so what the person who wrote the tags holds to belong together is to be found by the text
alone. Each question is asked three times: as declarations ask, by meaning alone, by words alone.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import quantiles

from app.extend import Json
from app.memory.index.memory_index import MemoryIndex
from app.memory.index.records import ChunkRecord
from app.memory.ranking.candidates import folded
from app.memory.ranking.pipeline import Retriever
from app.memory.ranking.requests import RecallQuery, Retrieval

MOST_QUESTIONS = 500
DEPTH = 30
"""Fragments of an answer, of which the first ten notes count."""

FIRST = 10
SHORTEST, LONGEST = 8, 80
"""Characters of a sentence that is a question."""

MOST_SHARING = 10
"""A tag of more notes tells too little of what belongs together."""

WAYS: Mapping[str, float | None] = {"joined": None, "meaning": 0.0, "words": 1.0}
"""The weight of words of each way; None is what declarations without a modifier use."""

_ENDS = re.compile(r"[。！？!?\n]+|\.\s")
_TAG_LINE = re.compile(r"\s*(?:tags?|标签)\s*[:：]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """A question, the note it is from, and the notes that are right."""

    text: str
    note: int
    right: frozenset[int]
    left_out: bool


@dataclass(slots=True)
class _Seen:
    ranks: list[list[int]] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


async def own_questions(index: MemoryIndex, count: int, seed: int) -> list[OwnQuestion]:
    """At most ``count`` questions of each kind, the same ones for the same notes and seed."""
    ids = [place.id async for part in index.places() for place in part]
    chance = random.Random(seed)
    sample = chance.sample(ids, min(len(ids), 4 * count))
    records = await index.chunks(sample)
    tags = {folded(tag): notes for tag, notes in (await index.tag_notes()).items()}
    found: list[OwnQuestion] = []
    number: Counter[bool] = Counter()
    used: set[int] = set()
    for chunk in sample:
        record = records.get(chunk)
        if record is None or record.note_id in used or not (sentences := list(_sentences(record))):
            continue
        used.add(record.note_id)
        text = chance.choice(sentences)
        sharing = [notes for tag in record.tags if len(notes := tags.get(folded(tag), frozenset())) <= MOST_SHARING]
        others = frozenset().union(*sharing) - {record.note_id}
        for right, left_out in ((frozenset({record.note_id}), False), (others, True)):
            if right and number[left_out] < count:
                number[left_out] += 1
                found.append(OwnQuestion(text, record.note_id, right, left_out))
    return found


async def measured(
    index: MemoryIndex, retriever: Retriever, now: datetime, *, questions: int, seed: int, max_tokens: int
) -> dict[str, Json]:
    """Recall and times of each way over the notes as they are; nothing is changed."""
    asked = await own_questions(index, max(1, min(MOST_QUESTIONS, questions)), seed)
    notebooks = tuple(index.notebooks())
    seen = {(kind, way): _Seen() for kind in (False, True) for way in WAYS}
    by_words_alone = False
    for question in asked:
        for way, words in WAYS.items():
            retrieval = Retrieval(notebooks, DEPTH, max_tokens, bm25=words)
            begun = time.perf_counter()
            answer = await retriever.retrieve(RecallQuery(question.text, "", now), retrieval)
            one = seen[question.left_out, way]
            if question is not asked[0]:  # the first one opens files
                one.seconds.append(time.perf_counter() - begun)
            by_words_alone = by_words_alone or answer.lexical_only
            notes = list(dict.fromkeys(hit.chunk.note_id for hit in answer.hits))
            if question.left_out and question.note in notes:
                notes.remove(question.note)
            one.ranks.append([rank for rank, note in enumerate(notes[:FIRST], 1) if note in question.right])
            one.wanted.append(len(question.right))
    rows: list[Json] = [
        {"questions": "left_out" if left_out else "sentence", "way": way, **_figures(one)}
        for (left_out, way), one in seen.items()
        if one.ranks and not (by_words_alone and way != "words")
    ]
    return {"notes": sum(book.notes for book in index.notebooks().values()), "wordsOnly": by_words_alone, "rows": rows}


def _sentences(record: ChunkRecord) -> Iterator[str]:
    body = record.text if record.ordinal else record.text.partition("\n")[2] or record.text
    for sentence in _ENDS.split(body):
        text = sentence.strip()
        if SHORTEST <= len(text) <= LONGEST and not _TAG_LINE.match(text):
            yield text


def _figures(seen: _Seen) -> dict[str, Json]:
    count = len(seen.ranks)

    def recall(depth: int) -> float:
        shares = (
            sum(rank <= depth for rank in ranks) / min(wanted, depth)
            for ranks, wanted in zip(seen.ranks, seen.wanted, strict=True)
        )
        return round(sum(shares) / count, 4)

    times = _milliseconds(seen.seconds)
    return {
        "count": count,
        "recall@5": recall(5),
        "recall@10": recall(FIRST),
        "mrr": round(sum(1 / ranks[0] for ranks in seen.ranks if ranks) / count, 4),
        "p50": times[0],
        "p95": times[1],
    }


def _milliseconds(seconds: Sequence[float]) -> tuple[float, float]:
    if len(seconds) < 2:
        return (round(seconds[0] * 1000, 1),) * 2 if seconds else (0.0, 0.0)
    cuts = quantiles(seconds, n=20, method="inclusive")
    return round(cuts[9] * 1000, 1), round(cuts[18] * 1000, 1)
