"""The generated diaries: a seed gives the same set always, answers are where questions say, seeds share no words."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pytest

from bench.memory.diary_set import CLASSES, DiarySet, generate
from bench.memory.diary_set.__main__ import document, main
from bench.memory.diary_set.asking import (
    ENGLISH_PARAPHRASE_FORMS,
    MOST_SHARED,
    PARAPHRASE_FORMS,
    TAG_FORMS,
    _shared,
)
from bench.memory.diary_set.facts import ASKED
from bench.memory.diary_set.links import FORMS, KINDS
from bench.memory.diary_set.names import PEOPLE, PLACES
from bench.memory.diary_set.phrases import phrases
from bench.memory.diary_set.routines import LEAD_INS, ROUTINES
from bench.memory.diary_set.topics_more import ALL_TOPICS

SUMMARY = Path(__file__).parents[3] / "bench/memory/diary_set/SUMMARY.md"
DIGESTS = {
    1: "ef456ebe78ff3a65cb0d924b414fb411b1e044d910041ca99c14223f35ba5067",
    2: "a2a15965c91cabc6862756802fa12469f426a11cdf240b00a07a13f9212e9ef2",
}
BOTH = pytest.mark.parametrize("seed", [1, 2])


@cache
def made(seed: int) -> DiarySet:
    return generate(seed)


@BOTH
def test_the_same_seed_gives_the_same_set_to_the_byte(seed: int) -> None:
    assert made(seed).digest() == DIGESTS[seed] == generate(seed).digest()


def test_another_seed_gives_another_set() -> None:
    assert generate(3).digest() != DIGESTS[1]


def test_the_summary_beside_the_generator_is_what_the_seeds_give() -> None:
    assert SUMMARY.read_text("utf-8") == document()


@BOTH
def test_a_set_has_six_notebooks_six_hundred_entries_over_two_years_and_a_thousand_questions(seed: int) -> None:
    notebooks = Counter(note.notebook for note in made(seed).notes)
    assert len(notebooks) >= 6 and "公共" in notebooks and sum(name.endswith("的知识") for name in notebooks) == 2
    assert len(made(seed).notes) >= 600
    days = [note.day for note in made(seed).notes]
    assert max(days) < made(seed).now.date() and (max(days) - min(days)).days > 700
    assert len(made(seed).questions) >= 1000
    kinds = Counter(question.kind for question in made(seed).questions)
    assert set(kinds) == set(CLASSES) and min(kinds.values()) >= 150


@BOTH
def test_entries_are_files_in_the_format_of_diaries(seed: int) -> None:
    paths = [note.path for note in made(seed).notes]
    assert len(set(paths)) == len(paths)
    older = 0
    for note in made(seed).notes:
        first, *body, last = note.text.split("\n")
        new = re.fullmatch(rf"{note.notebook}/{note.day}-\d\d_\d\d_\d\d\.txt", note.path)
        if new:
            assert first == f"[{note.day}] - {note.author}"
        else:
            older += 1
            dotted = note.day.strftime("%Y.%m.%d")
            assert note.path == f"{note.notebook}/{dotted}.txt"
            assert first in (f"{dotted}-{note.author}", f"[{dotted}] - {note.author}")
        assert last == "Tag: " + ", ".join(note.tags) and note.tags and len(set(note.tags)) == len(note.tags)
        assert 80 <= len("\n".join(body)) <= 600
    assert older > 10


@BOTH
def test_a_fifth_to_a_sixth_of_the_entries_is_in_the_english_mixed_notebook(seed: int) -> None:
    english = [note for note in made(seed).notes if note.notebook in ("Nova", "Luna")]
    assert 0.15 < len(english) / len(made(seed).notes) < 0.25


@BOTH
def test_questions_are_asked_once_and_their_answers_exist(seed: int) -> None:
    paths = {note.path for note in made(seed).notes}
    texts = [question.text for question in made(seed).questions]
    assert len(set(texts)) == len(texts)
    for question in made(seed).questions:
        assert set(question.gold) <= paths
        assert bool(question.gold) == (question.kind != "absent")
        assert len(question.gold) <= (5 if question.kind == "tag" else 4)
        assert "{" not in question.text


@BOTH
def test_the_answer_to_a_question_about_time_lies_in_the_days_that_its_words_mean(seed: int) -> None:
    today = made(seed).now.date()
    notes = {note.path: note for note in made(seed).notes}
    for question in made(seed).questions:
        if question.kind == "time":
            days = [notes[path].day for path in question.gold]
            phrase = next(phrase for phrase in phrases(days[0], today) if phrase.words == question.detail)
            assert all(phrase.first <= day <= phrase.last for day in days)


@BOTH
def test_the_answer_to_a_question_about_tags_carries_them_all(seed: int) -> None:
    notes = {note.path: note for note in made(seed).notes}
    for question in made(seed).questions:
        if question.kind == "tag":
            assert all(set(question.detail.split()) <= set(notes[path].tags) for path in question.gold)
            carriers = {path for path, note in notes.items() if set(question.detail.split()) <= set(note.tags)}
            assert carriers == set(question.gold)


@BOTH
def test_a_paraphrase_shares_few_words_with_its_answer(seed: int) -> None:
    notes = {note.path: note for note in made(seed).notes}
    shares = []
    for question in made(seed).questions:
        if question.kind == "paraphrase":
            (path,) = question.gold
            shares.append(_shared(question.text, notes[path].text.split("\n", 1)[1]))
    assert max(shares) <= MOST_SHARED + 0.1 and sum(shares) / len(shares) < 0.08


@BOTH
def test_only_the_newest_value_answers_a_question_about_a_fact(seed: int) -> None:
    notes = {note.path: note for note in made(seed).notes}
    for question in made(seed).questions:
        if question.kind == "update":
            (path,) = question.gold
            tellers = [note for note in made(seed).notes if question.detail in note.text and "备忘录" in note.tags]
            assert all(note.day <= notes[path].day for note in tellers)


@BOTH
def test_a_question_over_two_entries_does_not_say_the_name_that_joins_them(seed: int) -> None:
    notes = {note.path: note for note in made(seed).notes}
    for question in made(seed).questions:
        if question.kind == "multi_hop":
            assert len(question.gold) == 2 and question.detail not in question.text
            assert all(question.detail in notes[path].text for path in question.gold)


@BOTH
def test_what_is_asked_of_strangers_is_told_nowhere(seed: int) -> None:
    told = "\n".join(note.text for note in made(seed).notes)
    strangers = [name for name in PEOPLE + PLACES if name not in told]
    near = [question.text for question in made(seed).questions if question.detail == "near"]
    assert len(near) >= 100
    assert sum(any(name in text for name in strangers) for text in near) > 60
    for text in near:
        assert all(name not in text for name in PEOPLE + PLACES if name in told)


def test_odd_and_even_seeds_share_no_name_no_sentence_and_no_question() -> None:
    def sentences(seed: int) -> set[str]:
        return {
            part
            for note in made(seed).notes
            for part in re.split(r"[。\n]", note.text)
            if len(part) > 8 and "Tag:" not in part
        }

    one, two = sentences(1), sentences(2)
    assert not one & two
    texts = [{question.text for question in made(seed).questions} for seed in (1, 2)]
    assert not texts[0] & texts[1]
    for name in PEOPLE:
        assert not all(any(name in note.text for note in made(seed).notes) for seed in (1, 2))


def test_each_class_has_at_least_twelve_forms_for_each_parity() -> None:
    for forms in (PARAPHRASE_FORMS, TAG_FORMS, FORMS, ASKED, LEAD_INS):
        assert len(forms) % 2 == 0 and len(forms) >= 24
    assert sum(len(routine.asked) for routine in ROUTINES) >= 48 and len(ENGLISH_PARAPHRASE_FORMS) >= 4
    assert all(len(topic.first) >= 6 and len(topic.second) >= 5 for topic in ALL_TOPICS)
    assert all(len(kind.aliases) % 2 == 0 and len(kind.aspects) % 2 == 0 for kind in KINDS)


@pytest.mark.parametrize(
    ("day", "words", "first", "last"),
    [
        ((2025, 11, 26), "昨天", (2025, 11, 26), (2025, 11, 26)),
        ((2025, 11, 17), "上周", (2025, 11, 17), (2025, 11, 23)),
        ((2025, 11, 21), "上周五", (2025, 11, 21), (2025, 11, 21)),
        ((2025, 10, 31), "上个月底", (2025, 10, 21), (2025, 10, 31)),
        ((2025, 8, 9), "三个月前", (2025, 8, 1), (2025, 8, 31)),
        ((2025, 11, 12), "十五天前", (2025, 11, 12), (2025, 11, 12)),
        ((2025, 11, 13), "两周前", (2025, 11, 10), (2025, 11, 16)),
        ((2025, 11, 12), "上上周", (2025, 11, 10), (2025, 11, 16)),
        ((2024, 7, 4), "去年夏天", (2024, 6, 1), (2024, 8, 31)),
        ((2025, 5, 4), "半年前", (2025, 5, 1), (2025, 5, 31)),
        ((2025, 10, 3), "10月初", (2025, 10, 1), (2025, 10, 10)),
        ((2025, 11, 17), "last week", (2025, 11, 17), (2025, 11, 23)),
        ((2025, 10, 6), "今年中秋那天", (2025, 10, 6), (2025, 10, 6)),
    ],
)
def test_words_mean_the_days_of_the_vectors_t1_to_t17(
    day: tuple[int, int, int], words: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    found = {phrase.words: phrase for phrase in phrases(date(*day), date(2025, 11, 27))}
    assert (found[words].first, found[words].last) == (date(*first), date(*last))


def test_no_words_reach_beyond_today() -> None:
    today = date(2025, 11, 27)
    for ago in range(1, 731):
        for phrase in phrases(today - timedelta(days=ago), today):
            assert phrase.first <= today - timedelta(days=ago) <= phrase.last <= today


def test_the_program_writes_the_diaries_as_files(tmp_path: Path) -> None:
    main(["--seed", "1", "--write", str(tmp_path)])
    files = [file for file in tmp_path.rglob("*.txt")]
    assert len(files) == len(made(1).notes)
    note = made(1).notes[0]
    assert (tmp_path / note.path).read_text("utf-8") == note.text
