"""What a set is made of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal

QuestionClass = Literal["time", "tag", "paraphrase", "multi_hop", "update", "absent"]
CLASSES: tuple[QuestionClass, ...] = ("time", "tag", "paraphrase", "multi_hop", "update", "absent")


@dataclass(frozen=True, slots=True)
class Note:
    """One diary file: ``path`` is relative to the folder of diaries and names it in the questions."""

    path: str
    notebook: str
    author: str
    day: date
    text: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the paths of the notes that answer it; none for ``absent``.

    ``detail`` says how it was made: the time words, the tags, or whether what is absent is ``near`` to the set
    (the same shape, another name) or ``far`` from it.
    """

    kind: QuestionClass
    text: str
    gold: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DiarySet:
    """All notes and questions of a seed; questions are asked at ``now``."""

    seed: int
    now: datetime
    notes: tuple[Note, ...]
    questions: tuple[Question, ...]

    def digest(self) -> str:
        """SHA-256 of everything in it, in its order."""
        told = sha256()
        rows = [[self.seed, self.now.isoformat()]]
        rows += [[note.path, note.text] for note in self.notes]
        rows += [[asked.kind, asked.text, *asked.gold] for asked in self.questions]
        for row in rows:
            told.update(json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
        return told.hexdigest()

    def write(self, folder: Path) -> None:
        """The notes as files below this folder, as a person would find them."""
        for note in self.notes:
            file = folder / note.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(note.text, encoding="utf-8")
