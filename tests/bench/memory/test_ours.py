"""Ours as it is measured: the real index, vectors and retriever over files and over prepared passages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from app.memory.embedders.hashing import hashed
from bench.memory.diary_set import DiarySet, Note, Question
from bench.memory.embedding import Cached, Kind, VectorCache, Vectors
from bench.memory.ours import Ours
from bench.memory.parts import variants
from bench.memory.report import OURS
from bench.memory.sets import Passage, diaries

NOW = datetime(2025, 11, 27, 15, 30, tzinfo=UTC)


class Hashing:
    signature, dimensions = "hashing", 512

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        return np.stack([hashed(text) for text in texts])


def cached(folder: Path) -> Cached:
    return Cached(Hashing(), VectorCache(folder))


def test_turns_of_two_dialogues_are_searched_apart_each_with_its_neighbours(tmp_path: Path) -> None:
    def turns(talk: str, *texts: str) -> tuple[Passage, ...]:
        return tuple(
            Passage(f"{talk}/D1:{at}", f"{talk}/session_1", at, text, notebook=talk) for at, text in enumerate(texts)
        )

    corpora = {
        "a": turns("a", "Ann: I adopted a cat", "Ben: What is its name?", "Ann: Oscar"),
        "b": turns("b", "Cid: my cat is called Tom", "Dan: nice"),
    }
    with Ours(cached(tmp_path)) as ours:
        ours.build(corpora)
        found = ours.search("a", "Who adopted a cat", None, 5)
        assert found.ids[0] == "a/D1:0"
        assert set(found.ids) == {"a/D1:0", "a/D1:1", "a/D1:2"}
        assert found.gate is None
        assert ours.search("b", "the name of the cat", None, 1).ids == ("b/D1:0",)


def test_diaries_are_files_and_every_part_can_be_left_out(tmp_path: Path) -> None:
    day = NOW.date().replace(day=20)
    notes = [
        Note(
            f"小克/2025-11-{at}.txt",
            "小克",
            "小克",
            day.replace(day=at),
            f"[2025-11-{at}] - 小克\n{text}\nTag: {tag}",
            (tag,),
        )
        for at, text, tag in (
            (20, "和老王去河边钓鱼。", "钓鱼"),
            (10, "在家读书。", "读书"),
            (11, "厨房装修。", "装修"),
        )
    ]
    made = diaries(DiarySet(9, NOW, tuple(notes), (Question("time", "上周做了什么", (notes[0].path,)),)))
    with Ours(cached(tmp_path), made.notes, judged=True) as ours:
        ours.build(made.corpora)
        found = ours.search("all", "上周去哪里钓鱼", NOW, 2)
        assert found.ids[0] == "小克/2025-11-20.txt#0"
        assert found.gate is not None
        names = []
        for variant in variants(ours):
            names.append(variant.name)
            assert variant.search("all", "老王", NOW, 1).ids == ("小克/2025-11-20.txt#0",)
        assert all(name.startswith(f"{OURS} ") for name in names)
        assert len(set(names)) == len(names) >= 10
