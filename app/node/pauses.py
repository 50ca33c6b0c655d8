"""How long a node waits before it connects again (spec 6.4, P82). Pure."""

from __future__ import annotations

from collections.abc import Callable

FIRST_SECONDS = 5.0
LONGEST_SECONDS = 60.0
REFUSED_SECONDS = 300.0
"""The pause after a refusal that will not go away by itself; servers block addresses that try wrong keys."""

STEADY_SECONDS = 60.0
"""A connection that held for this long is a good one: the next pause is a short one again."""


class Pauses:
    """Pauses that double from ``first`` to ``longest`` seconds while connections fail or break off early.

    A server that accepts and hangs up at once is spared like one that refuses: only a connection that held for
    ``steady`` seconds begins anew. Each pause is shortened by up to a half at random (``random`` gives 0 to 1), so that
    many nodes do not come back at the same moment; it never gets shorter than the one before.
    """

    def __init__(
        self,
        random: Callable[[], float],
        first: float = FIRST_SECONDS,
        longest: float = LONGEST_SECONDS,
        steady: float = STEADY_SECONDS,
        refused: float = REFUSED_SECONDS,
    ) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self._steady = steady
        self._refused = refused
        self._next = first

    def after(self, held: float, *, refused: bool = False) -> float:
        """Seconds to wait after a connection that held for ``held`` seconds, or after one that was not made (0).

        ``refused``: it will be refused again until somebody changes something.
        """
        if held >= self._steady:
            self._next = self._first
        pause, self._next = self._next, min(self._next * 2, self._longest)
        return (self._refused if refused else pause) * (1 + self._random()) / 2
