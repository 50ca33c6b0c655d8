"""Now and then the set that serves is measured, and vectors that nobody needs are forgotten (memory.md 2.6, 3.5)."""

from __future__ import annotations

import logging
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple

from app.errors import VcpError
from app.memory.embedders.calibration import measured
from app.memory.embedders.embedder import Embedder, Vector
from app.memory.index.chunks import embedded_sha
from app.memory.index.memory_index import MemoryIndex
from app.memory.vectors import tables
from app.memory.vectors.sets import VectorSets
from app.memory.vectors.vector_set import VectorSet
from app.protocol.token_estimate import IDEOGRAPHS

log = logging.getLogger(__name__)

SWEEP_SECONDS = 6 * 3600.0
"""A text has to be without a chunk twice, so long apart, before its vector goes: undone deletions cost nothing."""

SWEPT_SHARE = 8
"""At most so great a part of a set goes at a time: a disk that is not mounted must not cost all vectors."""

SWEPT_LEAST = 200
FEWEST_MEASURED = 8
"""Chunks that a set has at least before it is measured; early, since the figures of a model are those of bare texts."""

MEASURED_GROWTH = 2
"""It is measured again when it has grown so many times."""

QUESTIONS, FRAGMENTS = 32, 64
"""Each of so many question-like texts is compared with so many fragments of other notes."""

QUESTION_CHARS = 40
_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
_SENTENCE_ENDS = re.compile(r"[。！？!?\n.;；]+")


class Tidying:
    """Called by the task that fills, between its batches, so that nothing else gives or takes rows meanwhile."""

    def __init__(self, sets: VectorSets, index: MemoryIndex, clock: Callable[[], float]) -> None:
        self._sets = sets
        self._index = index
        self._clock = clock
        self._swept: float | None = None
        self._orphans: frozenset[bytes] = frozenset()
        self._orphans_of = 0
        self._measured = (0, 0)

    async def step(self) -> None:
        """What is due. Raises the errors of ``Database``."""
        serving = self._sets.serving
        if serving is None:
            return
        await self._measure(serving)
        if self._swept is None:
            self._swept = self._clock() - SWEEP_SECONDS
        now = self._clock()
        self._swept = min(self._swept, now)  # a clock that was set back must not put the next one off
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            await self._sweep(serving)

    async def _measure(self, serving: VectorSet) -> None:
        """The calibration of the set: cosines of questions with fragments that have nothing to do with them (2.6)."""
        if self._measured[0] != serving.id:
            self._measured = serving.id, serving.count if serving.calibration is not None else 0
        embedder = self._sets.embedder_of(serving)
        if embedder is None or serving.count < max(FEWEST_MEASURED, self._measured[1] * MEASURED_GROWTH):
            return
        self._measured = serving.id, serving.count  # whatever comes of it: it is not worth asking again and again
        calibration = measured(await self._cosines(serving, embedder))
        if calibration is not None and self._sets.serving is serving:
            await self._sets.calibrate(calibration)
            log.info("memory: texts that have nothing in common have a cosine of %.3f +- %.3f", *astuple(calibration))

    async def _cosines(self, serving: VectorSet, embedder: Embedder) -> list[float]:
        dice = random.Random(serving.id)
        ids = self._sets.with_vectors()
        asked = await self._index.chunks(dice.sample(ids, min(QUESTIONS, len(ids))))
        others = await self._index.chunks(dice.sample(ids, min(FRAGMENTS, len(ids))))
        found, matrix = await self._sets.of_chunks(list(others))
        questions = {one.id: question_of(one.text) for one in asked.values()}
        by_script: dict[bool, list[float]] = {True: [], False: []}
        for chunk, vector in (await self._embedded(embedder, questions)).items():
            if vector.shape == (serving.dimension,):
                script = in_ideographs(questions[chunk])
                foreign = [
                    others[one].note_id != asked[chunk].note_id and in_ideographs(others[one].text) == script
                    for one in found
                ]
                by_script[script] += (matrix[foreign] @ vector).tolist()
        return centred(list(by_script.values()))

    async def _embedded(self, embedder: Embedder, questions: Mapping[int, str]) -> dict[int, Vector]:
        if embedder.paid:  # one request instead of many
            embedded = await embedder.embed_passages({str(chunk): text for chunk, text in questions.items() if text})
            return {int(chunk): vector for chunk, vector in embedded.vectors.items()}
        vectors: dict[int, Vector] = {}
        for chunk, text in questions.items():
            if text:
                try:
                    vectors[chunk] = await embedder.embed_query(text)
                except VcpError as error:
                    log.debug("memory: a question for measuring could not be embedded: %s", error.message)
        return vectors

    async def _sweep(self, serving: VectorSet) -> None:
        rows = await self._sets.database.read(lambda connection: tables.all_rows(connection, serving.id))
        needed = {place.embed_sha for place in await self._index.places()}
        needed |= {embedded_sha(tag) for tag in await self._index.tag_notes()} | self._sets.asked_texts
        orphans = frozenset(sha for sha in rows if sha not in needed)
        before = self._orphans if self._orphans_of == serving.id else frozenset()
        gone = [sha for sha in orphans if sha in before][: max(SWEPT_LEAST, len(rows) // SWEPT_SHARE)]
        if gone:
            await serving.remove({sha: rows[sha] for sha in gone})
            log.info("memory: %d vectors of texts that are gone were removed", len(gone))
        self._orphans, self._orphans_of = orphans.difference(gone), serving.id


def in_ideographs(text: str) -> bool:
    """Whether a text is Chinese or Japanese rather than in letters."""
    return 4 * len(_IDEOGRAPH.findall(text)) >= len(text)


def centred(groups: Sequence[Sequence[float]]) -> list[float]:
    """All values, each group moved so that its mean is that of all.

    Two languages are further from each other than two texts of one, under most models, and each has a mean of its own.
    That would count as deviation, and no gate of a notebook in two languages would ever open.
    """
    values = [value for group in groups for value in group]
    mean = math.fsum(values) / len(values) if values else 0.0
    return [value - math.fsum(group) / len(group) + mean for group in groups for value in group]


def question_of(text: str) -> str:
    """A sentence from the middle of a text, as short as questions are; empty when it has none."""
    sentences = [part.strip() for part in _SENTENCE_ENDS.split(text) if len(part.strip()) > 3]
    return sentences[len(sentences) // 2][:QUESTION_CHARS] if sentences else ""
