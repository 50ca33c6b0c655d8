"""Diary entries while they are being written: what they tell, and what a question must know about them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, timedelta

from bench.memory.diary_set.dice import Dice
from bench.memory.diary_set.names import BOOKS, DISHES, ERRANDS, ERRANDS_ENGLISH, FILMS, PEOPLE, PLACES
from bench.memory.diary_set.record import Note

MONTHS_TOLD = 24
SHORTEST = 80
LONGEST = 600
_SLOT = re.compile(r"\{(\w+)\}")
_LETTERS = "abcdefghjkmnpqrstuvwxyz"
_WEEKDAYS = "一二三四五六日"


def fill(dice: Dice, template: str, **known: str) -> str:
    """The template with what is known and, for the other slots, names and numbers of this seed."""
    people = dice.some(dice.half(PEOPLE), 2)

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name in known:
            return known[name]
        match name:
            case "p":
                return people[0]
            case "p2":
                return people[1]
            case "pl":
                return dice.own(PLACES)
            case "dish":
                return dice.own(DISHES)
            case "book":
                return dice.own(BOOKS)
            case "film":
                return dice.own(FILMS)
            case "n":
                return str(dice.between(2, 12))
            case "m":
                return str(dice.between(100, 980))
            case "h":
                return str(dice.between(36, 99))
            case "mi":
                return str(dice.between(10, 59))
            case "w":
                return dice.pick(_WEEKDAYS)
            case "x":
                return "".join(dice.pick(_LETTERS) for _ in range(3)) + str(dice.between(10, 99))
        raise KeyError(name)

    return _SLOT.sub(value, template)


@dataclass(slots=True)
class Draft:
    """An entry: sentences in their order, and marks that tell questions what is in it."""

    day: date
    notebook: str
    author: str
    english: bool = False
    sentences: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    marks: set[tuple[object, ...]] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    path: str = ""

    def tell(self, *sentences: str) -> None:
        """Add sentences."""
        self.sentences.extend(sentence for sentence in sentences if sentence)

    def has(self, *mark: object) -> bool:
        """Whether it carries this mark."""
        return mark in self.marks

    @property
    def body(self) -> str:
        """What stands between the first line and the tags."""
        return (" " if self.english else "").join(self.sentences)


@dataclass(slots=True)
class Shelf:
    """All entries of a set, with the days that they may have."""

    dice: Dice
    today: date
    drafts: list[Draft] = field(default_factory=list)

    def any_day(self) -> date:
        """A day of the last two years, before today."""
        return self.today - timedelta(days=1 + self.dice.below(MONTHS_TOLD * 365 // 12 - 1))

    def add(self, day: date, notebook: str, author: str, english: bool = False) -> Draft:
        """A new, empty entry."""
        draft = Draft(day, notebook, author, english)
        self.drafts.append(draft)
        return draft

    def notes(self) -> tuple[Note, ...]:
        """The entries as files, in the order of their paths; each is filled up to the length of a real entry."""
        taken: set[str] = set()
        made = []
        for draft in self.drafts:
            self._fill_up(draft)
            head = self._place(draft, taken)
            body = draft.body
            if self.dice.chance(0.4) and not draft.english and len(draft.sentences) > 2:
                cut = self.dice.between(1, len(draft.sentences) - 1)
                body = "".join(draft.sentences[:cut]) + "\n" + "".join(draft.sentences[cut:])
            text = f"{head}\n{body}\nTag: {', '.join(draft.tags)}"
            made.append(Note(draft.path, draft.notebook, draft.author, draft.day, text, tuple(draft.tags)))
        return tuple(sorted(made, key=lambda note: note.path))

    def _fill_up(self, draft: Draft) -> None:
        while len(draft.body) < SHORTEST:
            draft.tell(fill(self.dice, self.dice.own(ERRANDS_ENGLISH if draft.english else ERRANDS)))

    def _place(self, draft: Draft, taken: set[str]) -> str:
        """Choose the path; returns the first line. One in twenty is in the older form, written by hand."""
        day = draft.day
        dotted = f"{day.year}.{day.month:02}.{day.day:02}"
        old = f"{draft.notebook}/{dotted}.txt"
        if self.dice.chance(0.05) and old not in taken:
            draft.path = old
            taken.add(old)
            return f"[{dotted}] - {draft.author}" if self.dice.chance(0.5) else f"{dotted}-{draft.author}"
        while not draft.path or draft.path in taken:
            clock = f"{self.dice.between(7, 23):02}_{self.dice.below(60):02}_{self.dice.below(60):02}"
            draft.path = f"{draft.notebook}/{day.isoformat()}-{clock}.txt"
        taken.add(draft.path)
        return f"[{day.isoformat()}] - {draft.author}"
