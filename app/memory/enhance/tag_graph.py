"""A walk over tags and notes: which notes hang together with a question through their tags (memory.md 11.13).

Personalised PageRank over the two-sided graph of tags and notes. An edge weighs what tag and note tell of each other
(pointwise mutual information, smoothed so that it stays positive), so a tag that everything carries leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESTART = 0.5
ITERATIONS = 10
EXPLAINED_NOTES = 200
EXPLAINED_TAGS = 5
TOLD_TAGS = 200
"""So many tags are told, the ones with the greatest mass."""

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class NoteMasses(Mapping[int, float]):
    """Masses of notes by id; one goes through the greatest first, equal ones by id (masses count to nine digits).

    A walk reaches most notes of a home, of which a question looks at a few: nothing is made of each.
    """

    def __init__(self, ids: Indices, masses: Floats) -> None:
        """``ids`` are ascending."""
        self._ids, self._masses = ids, masses

    def __getitem__(self, note: int) -> float:
        at = int(np.searchsorted(self._ids, note))
        if at == len(self._ids) or self._ids[at] != note:
            raise KeyError(note)
        return float(self._masses[at])

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids[np.argsort(-np.round(self._masses, 9), kind="stable")].tolist())

    def __len__(self) -> int:
        return len(self._ids)


NO_NOTES = NoteMasses(np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, slots=True)
class Walk:
    """Masses after the walk: of notes (the greatest is 1, and it comes first), of tags (their sum is at most 1; the
    greatest ones, which come first), and who reached whom.
    """

    notes: NoteMasses
    tags: Mapping[str, float]
    reached: Mapping[int, tuple[str, ...]]


class TagGraph:
    """The graph of one state of the index. Not changed after it is made; ``updated`` makes the next one."""

    def __init__(self, tag_notes: Mapping[str, frozenset[int]], before: TagGraph | None = None) -> None:
        """Build it; rows of tags whose notes are those of ``before`` are taken over (11.26)."""
        self._sets = dict(tag_notes)
        kept = before._rows if before is not None else {}
        known = before._sets if before is not None else {}
        self._rows: dict[str, Indices] = {
            tag: kept[tag] if known.get(tag) == notes else np.fromiter(sorted(notes), np.int64, len(notes))
            for tag, notes in tag_notes.items()
            if notes
        }
        self._names = sorted(self._rows)
        self._places = {tag: place for place, tag in enumerate(self._names)}
        sizes = np.array([len(self._rows[tag]) for tag in self._names], dtype=np.int64)
        flat = np.concatenate([self._rows[tag] for tag in self._names]) if self._names else np.zeros(0, np.int64)
        self._ids, self._note_of = np.unique(flat, return_inverse=True)
        self._tag_of: Indices = np.repeat(np.arange(len(self._names)), sizes)
        degrees = np.bincount(self._note_of, minlength=len(self._ids)).astype(np.float64)
        per_edge = sizes[self._tag_of] * degrees[self._note_of] if len(flat) else np.zeros(0)
        weights = np.log1p(len(flat) / np.maximum(per_edge, 1.0))
        self._to_note = weights / self._sum(self._tag_of, weights, len(self._names))[self._tag_of]
        self._to_tag = weights / self._sum(self._note_of, weights, len(self._ids))[self._note_of]
        self.frequencies: Mapping[str, int] = dict(zip(self._names, sizes.tolist(), strict=True))
        self.folded = tuple((tag.casefold(), tag) for tag in self._names)
        """All tags with the form in which they are looked for in questions."""

    @property
    def notes(self) -> int:
        """How many notes have a tag."""
        return len(self._ids)

    @staticmethod
    def _sum(groups: Indices, values: Floats, count: int) -> Floats:
        return np.bincount(groups, weights=values, minlength=count).astype(np.float64)

    def damping(self, tag: str) -> float:
        """What a tag is worth as a beginning: 1 for one that a single note has, towards 0 for one that all have."""
        everything = np.log1p(float(max(1, self.notes)))
        return float(np.log1p(self.notes / max(1, self.frequencies.get(tag, 1))) / everything)

    def walk(self, tags: Mapping[str, float], notes: Sequence[tuple[int, float]] = ()) -> Walk:
        """Ten steps, each going back to the beginning by half. Seeds with weights <= 0 or unknown do not count.

        The seeds keep their place: a direct tag stays part of the result (unlike in 5.3). What a note has only because
        it was a seed itself is not part of its mass, since its own score says that already.
        """
        tag_seed, note_seed = np.zeros(len(self._names)), np.zeros(len(self._ids))
        for tag, weight in tags.items():
            if tag in self._places and np.isfinite(weight) and weight > 0:
                tag_seed[self._places[tag]] = weight * self.damping(tag)
        for note, weight in notes:
            at = int(np.searchsorted(self._ids, note))
            if at < len(self._ids) and self._ids[at] == note and np.isfinite(weight) and weight > 0:
                note_seed[at] = weight
        total = float(tag_seed.sum() + note_seed.sum())
        if total <= 0.0:
            return Walk(NO_NOTES, {}, {})
        tag_seed, note_seed = tag_seed / total, note_seed / total
        tag_mass, note_mass = tag_seed.copy(), note_seed.copy()
        for _ in range(ITERATIONS):
            back = self._sum(self._tag_of, note_mass[self._note_of] * self._to_tag, len(self._names))
            forth = self._sum(self._note_of, tag_mass[self._tag_of] * self._to_note, len(self._ids))
            tag_mass = RESTART * tag_seed + (1.0 - RESTART) * back
            note_mass = RESTART * note_seed + (1.0 - RESTART) * forth
        through = np.maximum(note_mass - RESTART * note_seed, 0.0)
        return self._told(tag_mass, through)

    def _told(self, tag_mass: Floats, through: Floats) -> Walk:
        top = float(through.max(initial=0.0))
        if top <= 0.0:
            return Walk(NO_NOTES, {}, {})
        found = np.flatnonzero(through > 1e-6 * top)
        masses = NoteMasses(self._ids[found], through[found] / top)
        best = found[np.argsort(-through[found], kind="stable")][:EXPLAINED_NOTES]
        wanted = np.zeros(len(self._ids), dtype=bool)
        wanted[best] = True
        shares: dict[int, list[tuple[float, str]]] = {}
        for edge in np.flatnonzero(wanted[self._note_of]):
            tag = int(self._tag_of[edge])
            share = float(tag_mass[tag] * self._to_note[edge])
            if share > 0:
                shares.setdefault(int(self._ids[self._note_of[edge]]), []).append((-share, self._names[tag]))
        reached = {
            note: tuple(tag for _, tag in sorted(from_tags)[:EXPLAINED_TAGS]) for note, from_tags in shares.items()
        }
        order = np.argsort(-tag_mass, kind="stable")[:TOLD_TAGS]
        return Walk(masses, {self._names[at]: float(tag_mass[at]) for at in order if tag_mass[at] > 1e-9}, reached)
