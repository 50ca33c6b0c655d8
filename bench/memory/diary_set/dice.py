"""Choices that depend on the seed alone, on every version of Python."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Chance of one seed. Only ``Random.random`` is used: its values alone are promised to stay the same.

    ``parity`` is that of the seed: ``half`` gives the words that only seeds of this parity may use.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.parity = seed % 2

    def below(self, limit: int) -> int:
        """A whole number from 0 to ``limit`` - 1."""
        return int(self._random.random() * limit)

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        """True in so many cases of one."""
        return self._random.random() < share

    def pick(self, pool: Sequence[T]) -> T:
        """One of them."""
        return pool[self.below(len(pool))]

    def some(self, pool: Sequence[T], count: int) -> list[T]:
        """So many different ones of them, or all, in a random order."""
        left = list(pool)
        taken: list[T] = []
        while left and len(taken) < count:
            taken.append(left.pop(self.below(len(left))))
        return taken

    def half(self, pool: Sequence[T]) -> tuple[T, ...]:
        """Every second one: the odd seeds have the first, the third …, the even ones the others."""
        return tuple(pool[1 - self.parity :: 2])

    def own(self, pool: Sequence[T]) -> T:
        """One of those that seeds of this parity may use."""
        return self.pick(self.half(pool))
