"""Searching notes for tools: meaning, words, filters, near notes (memory.md 1.7, 6.1, 6.2)."""

from __future__ import annotations

import asyncio
from datetime import date

from app.extend import MemorySearch, Remembered
from app.memory.recall.note_search import NoteSearch
from tests.memory.ranking.prepared import PreparedIndex, PreparedVectors
from tests.memory.ranking.test_retriever import NOW, Backwards, Hashing, passages, retriever

EVERYTHING = ("小克", "小克的知识", "反思簇")


def search() -> NoteSearch:
    made = passages()
    index = PreparedIndex(made)
    return NoteSearch(index, PreparedVectors(index, made, Hashing()), retriever())


def found(query: str, **more: object) -> list[Remembered]:
    asked = MemorySearch(query, **more)  # type: ignore[arg-type]  # the same keywords, handed on
    return asyncio.run(search().search(asked, NOW, 8_000))


def test_what_is_only_near_in_meaning_is_found_too() -> None:
    """6.1: no hard lexical filter; by meaning alone with BM25 switched off."""
    by_meaning = found("老王钓了鲫鱼", words=False, k=3)
    assert by_meaning[0].text.startswith("和老王去河边钓鱼")
    assert {one.kind for one in found("鲫鱼红烧", k=7)} >= {"hybrid", "vector"}
    assert [one.score for one in by_meaning] == sorted((one.score for one in by_meaning), reverse=True)


def test_days_filter_hard_and_do_not_change_scores() -> None:
    """6.2: ``date_from`` and ``date_to``."""
    year = ((date(2025, 1, 1), date(2025, 12, 31)),)
    days = found("钓鱼", k=20, ranges=year)
    assert {one.day.year for one in days if one.day} == {2025}
    assert len(days) == 4
    assert days[0].score <= 1.5  # nothing is added for its day
    assert found("钓鱼", ranges=((date(2030, 1, 1), date(2030, 1, 2)),)) == []
    assert found("钓鱼", ranges=((date(2025, 2, 1), date(2025, 1, 1)),)) == []


def test_a_reranker_decides_the_order_and_is_named() -> None:
    notes = search()
    notes = NoteSearch(notes._index, notes._vectors, retriever(reranker=Backwards()))
    asked = MemorySearch("钓鱼", k=3, rerank=1.0)
    (first, *_), plain = asyncio.run(notes.search(asked, NOW, 8_000)), found("钓鱼", k=3)
    assert first.kind == "rerank"
    assert first.path != plain[0].path
    assert "rerank" not in {
        one.kind for one in found("钓鱼", k=3, rerank=0.5)
    }  # none is configured: it changes nothing


def test_notebooks_are_chosen_left_out_and_bounded() -> None:
    assert {one.notebook for one in found("鲫鱼", k=50)} == set(EVERYTHING)
    assert {one.notebook for one in found("鲫鱼", k=50, excluded=("小克",))} == {"小克的知识", "反思簇"}
    assert {one.notebook for one in found("鲫鱼", k=50, notebooks=("小克", "没有"))} == {"小克"}
    assert found("鲫鱼", notebooks=()) == []
    assert found("鲫鱼", k=0) == found("  ") == []
    assert len(found("鲫鱼" * 50_000, k=10**9)) == 7


def test_tags_narrow_and_boost() -> None:
    assert {one.text[:4] for one in found("老王", k=20, tags_all=("钓鱼", "老王"))} == {"和老王去"}
    assert len(found("老王", k=20, tags_any=("钓鱼", "读书"), tag_boost=0.5)) == 3


def test_near_notes_are_the_nearest_of_others_once_each() -> None:
    """1.7: none of the notes asked about, tags that both carry count, a least score cuts."""

    async def main() -> None:
        notes = search()
        path = "小克/2025-11-20-0.txt"
        text = "和老王去河边钓鱼，钓到三条鲫鱼，晚上红烧。"
        near = await notes.neighbours([path], [text], None, 10, 0.0, 0.15)
        assert path not in [one.path for one in near]
        assert len({one.path for one in near}) == len(near)
        assert near[0].similarity is not None
        assert near[0].kind == "vector"
        few = await notes.neighbours([path], [text], ["小克"], 2, 0.0, 0.15)
        assert [one.notebook for one in few] == ["小克", "小克"]
        assert await notes.neighbours([path], [text], None, 10, 9.0, 0.15) == []
        assert await notes.neighbours([], [], None, 10, 0.0, 0.15) == []

    asyncio.run(main())
