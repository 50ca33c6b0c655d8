"""A set from its seed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from bench.memory.diary_set.asking import Asker
from bench.memory.diary_set.dice import Dice
from bench.memory.diary_set.record import DiarySet
from bench.memory.diary_set.writing import Writer

ZONE = timezone(timedelta(hours=8))
NOWS = (datetime(2025, 9, 10, 9, 40, tzinfo=ZONE), datetime(2025, 11, 27, 15, 30, tzinfo=ZONE))
"""When questions of even and of odd seeds are asked."""


def generate(seed: int) -> DiarySet:
    """The set of this seed; a pure function."""
    dice = Dice(seed)
    now = NOWS[dice.parity]
    shelf = Writer(dice, now.date()).write()
    notes = shelf.notes()
    asker = Asker(dice, shelf, "\n".join(note.text for note in notes))
    return DiarySet(seed, now, notes, asker.ask())
