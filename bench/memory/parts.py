"""Ours without each of its parts, and with other modifiers, over one index: what every part is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from app.memory.ranking.options import Part, RankingOptions
from bench.memory.baselines import Found
from bench.memory.ours import Modifiers, Ours
from bench.memory.report import OURS
from bench.memory.sets import Passage


@dataclass(frozen=True, slots=True)
class Variant:
    """A ``System`` over what another one has built."""

    name: str
    built: Ours
    modifiers: Modifiers
    options: RankingOptions

    def build(self, corpora: Mapping[str, Sequence[Passage]]) -> None:
        """It is built already."""

    def search(self, corpus: str, question: str, now: datetime | None, k: int) -> Found:
        """See ``System``."""
        before = self.built.modifiers, self.built.options
        self.built.modifiers, self.built.options = self.modifiers, self.options
        try:
            return self.built.search(corpus, question, now, k)
        finally:
            self.built.modifiers, self.built.options = before


def variants(built: Ours) -> Iterator[Variant]:
    """The plain declaration, each modifier alone, the compatible modes, and each part left out."""
    usual, everything = RankingOptions(), Modifiers()

    def named(name: str, modifiers: Modifiers, options: RankingOptions) -> Variant:
        return Variant(f"{OURS} {name}", built, modifiers, options)

    yield named("plain", Modifiers(time=False, tags=False), usual)
    yield named("::Time", Modifiers(tags=False), usual)
    yield named("::TagMemo", Modifiers(time=False), usual)
    yield named("::TagMemo0.5", Modifiers(time=False, tag_boost=0.5), usual)
    yield named("::TagMemo0.5, n2025", Modifiers(time=False, tag_boost=0.5), RankingOptions(n2025_tags=True))
    yield named("plain, n2025", Modifiers(time=False, tags=False), RankingOptions(dense_only=True))
    for part in get_args(Part):
        yield named(f"without {part}", everything, RankingOptions(without=frozenset({part})))
