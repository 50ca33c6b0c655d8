"""The whole way from a question to fragments, over prepared notes (memory.md 2.5-2.8, 8.3, 11.7-11.18)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.memory.embedders.embedder import Calibration, Matrix, Vector
from app.memory.embedders.hashing import hashed
from app.memory.enhance.tag_memo import TagMemo
from app.memory.ranking.gate import Gates, aggregate
from app.memory.ranking.options import RankingOptions
from app.memory.ranking.pipeline import RERANK_SECONDS, Retriever
from app.memory.ranking.requests import DateRange, GateValue, Hit, RecallQuery, Retrieval, Retrieved
from bench.memory.sets import Passage
from tests.memory.ranking.prepared import PreparedIndex, PreparedVectors

NOW = datetime(2025, 11, 27, 15, 30, tzinfo=UTC)
TEXTS = {
    "小克": [
        ("2025-11-20", "钓鱼, 老王", "和老王去河边钓鱼，钓到三条鲫鱼，晚上红烧。"),
        ("2025-11-19", "读书", "读完了《百年孤独》的第三章，人名太多记不住。"),
        ("2025-03-02", "钓鱼", "第一次钓鱼，空手而归，鱼竿还断了。"),
        ("2024-10-05", "装修", "厨房的瓷砖选了灰色，RX-7900 型号的抽油烟机装好了。"),
        ("2025-11-21", "老王", "老王的女儿考上了大学，请大家吃饭。"),
    ],
    "小克的知识": [("2020-01-01", "鱼", "鲫鱼适合红烧或者炖汤，刺比较多。")],
    "反思簇": [("2021-01-01", "", "反思自己的推理有没有漏洞。")],
}


class Hashing:
    """The embedder that needs nothing, as a harness asks for it."""

    signature, dimensions = "hashing", 512

    def embed(self, texts: Sequence[str], kind: str) -> Matrix:
        return np.stack([hashed(text) for text in texts])


def passages(texts: Mapping[str, Iterable[tuple[str, str, str]]] = TEXTS) -> list[Passage]:
    made = []
    for notebook, notes in texts.items():
        for number, (day, tags, text) in enumerate(notes):
            path = f"{notebook}/{day}-{number}.txt"
            header = f"{day} {notebook}\nTag: {tags}"
            made.append(Passage(path, path, 0, text, header, notebook, date.fromisoformat(day)))
    return made


class Away(PreparedVectors):
    """A model that cannot be asked now."""

    async def embed_query(self, text: str) -> Vector | None:
        return None

    async def of_texts(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None] * len(texts)


class Topics:
    def __init__(self, **thresholds: float) -> None:
        self.thresholds = thresholds

    def threshold(self, notebook: str) -> float | None:
        return self.thresholds.get(notebook)

    def enhanced_text(self, notebook: str) -> str | None:
        return None


class Backwards:
    """A reranker that likes the last best, and has not read the first."""

    def __init__(self, skip: int = 1) -> None:
        self.skip = skip
        self.read: list[str] = []

    async def rerank(self, query: str, documents: Sequence[str]) -> Mapping[int, float]:
        self.read = list(documents)
        return {place: float(place) for place in range(self.skip, len(documents))}


class Hanging(Backwards):
    """A reranker that never answers."""

    async def rerank(self, query: str, documents: Sequence[str]) -> Mapping[int, float]:
        await asyncio.Event().wait()
        return {}


def retriever(
    notes: Sequence[Passage] | None = None,
    vectors: type[PreparedVectors] = PreparedVectors,
    reranker: Backwards | None = None,
    topics: Topics | None = None,
    **options: object,
) -> Retriever:
    index = PreparedIndex(passages() if notes is None else notes)
    found = vectors(index, passages() if notes is None else notes, Hashing())  # type: ignore[arg-type]  # any kind
    found._calibration = Calibration(0.05, 0.06)
    switches = RankingOptions(**options)
    return Retriever(
        index,
        found,
        options=lambda: switches,
        gates=Gates(index, found, topics or Topics(), lambda: switches),
        tags=TagMemo(index, found, lambda: switches),
        reranker=lambda: reranker,
        rerank_seconds=0.01 if isinstance(reranker, Hanging) else RERANK_SECONDS,
    )


def query(text: str, *, ranges: tuple[DateRange, ...] = (), assistant: str = "", before: str = "") -> RecallQuery:
    return RecallQuery(text, assistant, NOW, before, ranges)


ALL = Retrieval(tuple(TEXTS), 3, 100_000)


def find(asked: RecallQuery, retrieval: Retrieval = ALL, **more: object) -> Retrieved:
    return asyncio.run(retriever(**more).retrieve(asked, retrieval))  # type: ignore[arg-type]  # handed on


def texts(found: Retrieved, source: str = "rag") -> list[str]:
    return [hit.text[:6] for hit in found.hits if hit.source == source]


def test_what_is_asked_for_comes_first_and_at_most_k_come() -> None:
    found = find(query("鲫鱼钓到几条"))
    assert found.hits[0].text.startswith("和老王去河边钓鱼")
    assert len(found.hits) == 3
    assert not found.lexical_only
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert {"fused", "dense", "lexical", "cosine", "recency"} <= set(found.hits[0].parts)
    assert 0.0 <= found.hits[0].similarity <= 1.0  # type: ignore[operator]  # there are vectors


def test_every_candidate_that_is_no_hit_is_told_with_a_reason() -> None:
    """11.29."""
    found = find(query("鲫鱼钓到几条"))
    assert {one.reason for one in found.dropped} == {"k"}
    assert len(found.dropped) == sum(map(len, TEXTS.values())) - 3


def test_a_model_that_is_away_leaves_words_alone_and_says_so() -> None:
    found = find(query("RX-7900 在哪里"), vectors=Away)
    assert found.lexical_only
    assert "words alone" in found.notes[0]
    assert texts(found) == ["厨房的瓷砖选"]
    assert found.hits[0].similarity is None


def test_only_the_notebooks_that_are_named_are_searched_and_none_finds_nothing() -> None:
    assert {hit.chunk.notebook for hit in find(query("鱼"), replace(ALL, notebooks=("小克的知识",))).hits} == {
        "小克的知识"
    }
    assert find(query("鱼"), replace(ALL, notebooks=())).hits == ()
    assert find(query("鱼"), replace(ALL, notebooks=("没有",))).hits == ()


@pytest.mark.parametrize("k", [0, -3])
def test_k_of_nothing_finds_nothing(k: int) -> None:
    assert find(query("鱼"), replace(ALL, k=k)).hits == ()


def test_a_hostile_k_is_bounded() -> None:
    assert len(find(query("鱼"), replace(ALL, k=10**9)).hits) == 7


def test_the_time_path_adds_what_is_of_the_days_asked_for_newest_first() -> None:
    """2.7, 11.14: filter on the person's own ranges, at least three, outside k, nothing twice."""
    week = DateRange(date(2025, 11, 17), date(2025, 11, 23))
    found = find(query("那周发生了什么", ranges=(week,)), replace(ALL, k=1, time=True))
    assert len(texts(found)) == 1
    timely = [hit for hit in found.hits if hit.source == "time"]
    assert [hit.chunk.day for hit in timely] == sorted((hit.chunk.day for hit in timely), reverse=True)
    assert {hit.chunk.day for hit in found.hits} == {date(2025, 11, 19), date(2025, 11, 20), date(2025, 11, 21)}
    assert len({hit.chunk.id for hit in found.hits}) == len(found.hits)


def test_without_the_modifier_and_for_soft_ranges_nothing_is_filtered() -> None:
    """4.2."""
    week = DateRange(date(2025, 11, 17), date(2025, 11, 23))
    plain = find(query("那周发生了什么", ranges=(week,)), ALL)
    soft = find(query("那周发生了什么", ranges=(replace(week, soft=True),)), replace(ALL, time=True))
    for found in (plain, soft):
        assert texts(found, "time") == []
        assert any(hit.parts.get("range") for hit in found.hits)


def test_a_range_without_notes_adds_nothing() -> None:
    empty = DateRange(date(1999, 1, 1), date(1999, 1, 2))
    found = find(query("鱼", ranges=(empty,)), replace(ALL, time=True))
    assert texts(found, "time") == []
    assert len(found.hits) == 3


def test_filters_of_the_search_tools_let_only_through_what_was_asked_for() -> None:
    """6.2: authors, all of these tags, any of those; without regard to case and width."""
    assert texts(find(query("鱼"), replace(ALL, tags_all=("钓鱼", "老王")))) == ["和老王去河边"]
    assert set(texts(find(query("鱼"), replace(ALL, tags_any=("读书", "装修"))))) == {"读完了《百年", "厨房的瓷砖选"}
    assert find(query("鱼"), replace(ALL, tags_all=("没有",))).hits == ()
    assert find(query("鱼"), replace(ALL, authors=("没有",))).hits == ()


def test_time_decay_and_truncate_take_away_and_say_why() -> None:
    """2.5."""
    found = find(query("钓鱼"), replace(ALL, decay_half_life=30.0, decay_minimum=0.5))
    assert {one.reason for one in found.dropped} >= {"decay"}
    assert all(hit.chunk.day >= date(2025, 10, 28) for hit in found.hits)  # type: ignore[operator]  # all have a day
    cut = find(query("钓鱼"), replace(ALL, truncate=0.99))
    assert {one.reason for one in cut.dropped} == {"truncate"}
    away = find(query("钓鱼"), replace(ALL, truncate=0.99), vectors=Away)
    assert away.hits
    assert any("similarity" in note for note in away.notes)


def test_the_reranker_reads_k_times_the_multiplier_and_unread_ones_keep_their_place() -> None:
    """2.4, 2.8."""
    reranker = Backwards()
    plain = find(query("钓鱼"), replace(ALL, k=6), without=frozenset({"duplicates"}))  # it reads before that step
    found = find(query("钓鱼"), replace(ALL, rerank=True), reranker=reranker)
    assert [text[:6] for text in reranker.read] == texts(plain)
    assert texts(found) == [texts(plain)[0], texts(plain)[5], texts(plain)[4]]
    assert found.hits[1].parts["rerank"] == 5.0


def test_a_reranker_that_is_missing_or_silent_changes_nothing_but_is_told() -> None:
    plain = find(query("钓鱼"))
    missing = find(query("钓鱼"), replace(ALL, rerank=True))
    silent = find(query("钓鱼"), replace(ALL, rerank=True), reranker=Backwards(skip=100))
    hanging = find(query("钓鱼"), replace(ALL, rerank=True), reranker=Hanging())
    assert texts(missing) == texts(silent) == texts(hanging) == texts(plain)
    assert "has not answered" in hanging.notes[0]
    assert missing.notes == ("no reranker is configured",)
    assert "has not answered" in silent.notes[0]


def test_rerank_plus_keeps_a_part_of_the_order_before() -> None:
    """2.5: ``::Rerank+0`` is the order before."""
    plain = find(query("钓鱼"))
    fused = find(query("钓鱼"), replace(ALL, rerank=True, rerank_fusion=0.0), reranker=Backwards())
    assert texts(fused) == texts(plain)


def test_tags_bring_notes_that_share_no_word_and_say_which_did() -> None:
    """11.13: explained per hit."""
    found = find(query("老王"), replace(ALL, k=2, tags=True, tag_boost=1.0))
    assert set(texts(found)) == {"和老王去河边", "老王的女儿考"}
    assert all("老王" in hit.matched_tags for hit in found.hits)
    assert all(hit.parts["tags"] > 0 for hit in found.hits)
    assert "老王" in found.tags


def test_the_references_tag_boost_and_plain_cosines_can_be_had() -> None:
    """MemoryTagBoost=n2025, MemoryRetrieval=dense."""
    found = find(query("钓鱼"), replace(ALL, tags=True, tag_boost=0.65), n2025_tags=True, dense_only=True)
    assert found.tags
    assert all("lexical" not in hit.parts or hit.parts["lexical"] == 0.0 for hit in found.hits)
    assert find(query("钓鱼"), replace(ALL, tags=True), n2025_tags=True).tags == {}  # D5: no number, no boost


def test_the_second_hop_is_appended_outside_k_and_is_nothing_that_was_found() -> None:
    """2.5 ``::Associate``."""
    found = find(query("鲫鱼红烧"), replace(ALL, k=1, associate=True))
    assert [hit.source for hit in found.hits] == ["rag", "associate"]
    assert len({hit.chunk.note_id for hit in found.hits}) == 2
    assert find(query("鲫鱼红烧"), replace(ALL, k=1, associate=True), vectors=Away).hits[1:]


LONG = [
    Passage("n/1", "n/1", place, text, "2025-11-20 甲\nTag: 长", "n", date(2025, 11, 20))
    for place, text in enumerate(["第一段讲天气，很冷。", "第二段讲钓鱼，鲫鱼。", "第三段讲晚饭，红烧。"])
] + [Passage("n/2", "n/2", 0, "另一篇说看书的事。", "2025-11-21 甲\nTag: 书", "n", date(2025, 11, 21))]


def test_expand_gives_the_whole_note_once() -> None:
    """2.5 ``::Expand``, 2.7: a chunk is suppressed when its file is injected."""
    found = find(query("钓鱼鲫鱼"), Retrieval(("n",), 3, 100_000, expand=True), notes=LONG)
    assert [hit.chunk.path for hit in found.hits] == ["n/1", "n/2"]
    assert found.hits[0].text == "\n".join(one.text for one in LONG[:3])


def test_a_note_beyond_the_budget_is_not_expanded() -> None:
    found = find(query("钓鱼鲫鱼"), Retrieval(("n",), 1, 14, expand=True), notes=LONG)
    assert found.hits[0].text == "第二段讲钓鱼，鲫鱼。"


def test_neighbours_of_a_good_chunk_are_raised() -> None:
    """11.9."""
    found = find(query("钓鱼鲫鱼"), Retrieval(("n",), 4, 100_000), notes=LONG)
    assert [hit.chunk.ordinal for hit in found.hits if hit.parts.get("neighbour")][:1] != []
    assert found.hits[0].chunk.ordinal == 1


def test_the_budget_holds_and_the_tail_goes_first() -> None:
    """11.17."""
    found = find(query("钓鱼"), replace(ALL, k=7, max_tokens=50))
    assert sum(hit.tokens for hit in found.hits) <= 50
    assert found.hits[0].text == find(query("钓鱼"), replace(ALL, k=7)).hits[0].text
    assert "budget" in {one.reason for one in found.dropped}


def test_a_question_that_only_points_back_is_asked_with_the_one_before() -> None:
    """11.18."""
    found = find(query("那后来呢？", before="鲫鱼钓到几条"))
    assert found.hits[0].text.startswith("和老王去河边钓鱼")


def test_an_empty_question_finds_nothing_and_does_not_fail() -> None:
    assert find(query("")).hits == ()
    assert find(query("", assistant="钓鱼的事")).hits != ()


class Broken(PreparedVectors):
    """Vectors that are no numbers."""

    async def embed_query(self, text: str) -> Vector | None:
        return np.full(512, np.nan, dtype=np.float32)

    async def of_chunks(self, chunk_ids: Sequence[int]) -> tuple[list[int], Matrix]:
        return list(chunk_ids), np.full((len(chunk_ids), 512), np.inf, dtype=np.float32)


def test_vectors_that_are_no_numbers_are_as_if_they_were_not_there() -> None:
    found = find(query("钓鱼"), vectors=Broken)
    assert found.lexical_only
    assert found.hits
    assert all(math.isfinite(hit.score) for hit in found.hits)


RETRIEVALS = st.builds(
    Retrieval,
    notebooks=st.just(tuple(TEXTS)),
    k=st.integers(-2, 12),
    max_tokens=st.integers(0, 200),
    time=st.booleans(),
    time_share=st.floats(allow_nan=True),
    tags=st.booleans(),
    tag_boost=st.none() | st.floats(allow_nan=True),
    bm25=st.none() | st.floats(allow_nan=True),
    bm25_bodies=st.booleans(),
    decay_half_life=st.none() | st.floats(allow_nan=True),
    truncate=st.none() | st.floats(allow_nan=True),
    expand=st.booleans(),
    associate=st.booleans(),
)


@settings(max_examples=60)
@given(RETRIEVALS, st.sampled_from(["钓鱼", "老王 RX-7900", "", '“ " * AND NEAR(']), st.booleans())
def test_no_modifiers_make_it_fail_exceed_the_budget_or_give_more_than_k(
    retrieval: Retrieval, text: str, away: bool
) -> None:
    week = DateRange(date(2025, 11, 17), date(2025, 11, 23))
    found = find(query(text, ranges=(week,)), retrieval, vectors=Away if away else PreparedVectors)
    assert sum(hit.tokens for hit in found.hits) <= max(0, retrieval.max_tokens)
    assert len(texts(found)) <= max(0, retrieval.k)
    assert len({hit.chunk.id for hit in found.hits}) == len(found.hits)
    assert not {hit.chunk.id for hit in found.hits} & {one.chunk_id for one in found.dropped}


def shown(hits: Iterable[Hit]) -> list[tuple[str, float]]:
    return [(hit.text, round(hit.score, 6)) for hit in hits]


@given(st.permutations(passages()))
@settings(max_examples=25)
def test_the_order_in_which_notes_were_indexed_does_not_matter(notes: list[Passage]) -> None:
    """Ties are broken by day, path and place, never by ids."""
    wanted = replace(ALL, k=7, time=True, tags=True, associate=True)
    asked = query("钓鱼 老王", ranges=(DateRange(date(2025, 11, 19), date(2025, 11, 21)),))
    assert shown(find(asked, wanted, notes=notes).hits) == shown(find(asked, wanted).hits)


def gates(text: str, names: Sequence[str] = ("小克", "小克的知识"), **more: object) -> list[GateValue]:
    return asyncio.run(retriever(**more).gate(query(text), names))  # type: ignore[arg-type]  # handed on


def test_the_gate_is_higher_for_the_notebook_that_is_about_the_question() -> None:
    """2.6."""
    fishing, knowledge = gates("鲫鱼适合红烧还是炖汤，刺多吗")
    assert knowledge.value > fishing.value
    assert knowledge.by in ("centroid", "chunk")
    assert knowledge.threshold == 0.6


def test_a_threshold_of_zero_opens_and_the_raw_gate_is_the_plain_cosine() -> None:
    """2.6: 0 is 0. MemoryGate=raw compares the cosine with 0.6."""
    [free] = gates("无关", ["小克"], topics=Topics(小克=0.0))
    assert free.threshold == 0.0
    assert free.open
    [raw] = gates("小克", ["小克"], raw_gate=True)
    assert (raw.by, raw.value) == ("name", raw.raw)
    assert raw.open


def test_words_that_are_found_together_open_the_gate_further() -> None:
    """A notebook of many themes is about a question that one of its notes answers."""
    [near] = gates("老王钓到三条鲫鱼，晚上怎么做的", ["小克"])
    [far] = gates("量子力学的哥本哈根诠释是怎么说的", ["小克"])
    assert near.by == "chunk"
    assert near.open
    assert not far.open


def test_without_vectors_half_of_the_words_in_one_chunk_open_the_gate() -> None:
    """Instead of a gate that is closed for as long as the model is away."""
    opened, shut = gates("钓到三条鲫鱼", vectors=Away)
    assert opened.open
    assert opened.by == "words"
    assert not gates("量子力学的哥本哈根诠释", vectors=Away)[0].open
    assert not gates("", vectors=Away)[0].open
    assert shut.value < opened.value


def test_an_aggregate_opens_by_its_greatest_member_against_the_mean_threshold() -> None:
    """2.5: A|B."""
    one, other = GateValue("A", 0.7, 0.9, "tags", 0.8), GateValue("B", 0.5, 0.8, "name", 0.4)
    both = aggregate([one, other])
    assert (both.notebook, both.value, both.by) == ("A|B", 0.7, "tags")
    assert both.threshold == pytest.approx(0.6)
    assert both.open


def test_notebooks_that_do_not_exist_have_a_gate_too() -> None:
    assert [one.notebook for one in gates("钓鱼", ["没有", "小克"])] == ["没有", "小克"]


def test_days_are_calendar_days_whatever_the_hour() -> None:
    """11.15: no zone and no hour in the prior."""
    late = replace(query("钓鱼"), now=NOW + timedelta(hours=8))
    assert shown(find(late).hits) == shown(find(query("钓鱼")).hits)
