"""Loaders of public sets, on tiny files of the same forms that are made here."""

from __future__ import annotations

import json
import zipfile
from datetime import date
from pathlib import Path

import pytest

from bench.memory.diary_set import generate
from bench.memory.sets import SetError, cmrc, diaries, lcqmc, locomo, public_sets, sts_b


def test_a_question_of_cmrc_is_answered_by_the_passage_it_was_written_from(tmp_path: Path) -> None:
    file = tmp_path / "cmrc.json"
    paragraphs = [
        {"id": "A", "context": "甲城在河边。", "qas": [{"question": "甲城在哪里？", "id": "A0"}]},
        {"id": "B", "context": "乙山很高。", "qas": [{"question": "乙山高吗？"}, {"question": "哪座山高？"}]},
    ]
    file.write_text(json.dumps({"data": [{"paragraphs": [one]} for one in paragraphs]}), "utf-8")
    found = cmrc(file)
    assert [(one.id, one.text) for one in found.corpora["all"]] == [("A", "甲城在河边。"), ("B", "乙山很高。")]
    assert [(asked.text, set(asked.gold)) for asked in found.questions] == [
        ("甲城在哪里？", {"A"}),
        ("乙山高吗？", {"B"}),
        ("哪座山高？", {"B"}),
    ]


def dialogues(folder: Path) -> Path:
    talk = {
        "speaker_a": "Ann",
        "session_10_date_time": "1:56 pm on 9 June, 2023",
        "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "Bye."}],
        "session_2_date_time": "10:37 am on 27 May, 2023",
        "session_2": [
            {"speaker": "Ann", "dia_id": "D2:1", "text": "Hello."},
            {"speaker": "Ben", "dia_id": "D2:2", "text": "Look.", "blip_caption": "a red boat"},
        ],
        "session_2_summary": "They greet.",
        "qa": [
            {"question": "What did Ben show?", "evidence": ["D2:2", "D9:9"], "category": 4},
            {"question": "When?", "evidence": ["D2:1", "D10:1"], "category": 2},
            {"question": "Not told", "evidence": ["D2:1"], "category": 5},
            {"question": "No evidence", "evidence": [], "category": 1},
            {"question": "Unknown evidence", "evidence": ["D7:7"], "category": 1},
        ],
    }
    file = folder / "locomo.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data/26.json", json.dumps(talk))
        archive.writestr("data/readme.txt", "nothing")
    return file


def test_turns_of_locomo_are_passages_and_sessions_documents_in_their_order(tmp_path: Path) -> None:
    found = locomo(dialogues(tmp_path))
    turns = found.corpora["26"]
    assert [(one.id, one.document, one.place) for one in turns] == [
        ("26/D2:1", "26/session_2", 0),
        ("26/D2:2", "26/session_2", 1),
        ("26/D10:1", "26/session_10", 0),
    ]
    assert turns[1].text == "Ben: Look. [a red boat]"
    assert (turns[0].day, turns[2].day) == (date(2023, 5, 27), date(2023, 6, 9))


def test_questions_of_locomo_without_evidence_that_exists_and_adversarial_ones_are_left_out(tmp_path: Path) -> None:
    found = locomo(dialogues(tmp_path))
    assert [(asked.text, set(asked.gold), asked.kind) for asked in found.questions] == [
        ("What did Ben show?", {"26/D2:2"}, "single-hop"),
        ("When?", {"26/D2:1", "26/D10:1"}, "time"),
    ]


def test_the_archive_is_read_where_it_lies(tmp_path: Path) -> None:
    file = dialogues(tmp_path)
    before = sorted(tmp_path.iterdir())
    locomo(file)
    assert sorted(tmp_path.iterdir()) == before


def test_sentences_of_sts_b_that_are_alike_but_not_the_same_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "sts.txt"
    file.write_text("一\t二\t5\n三\t四\t3\n五\t六\t4\n七\t七\t5\n八\t二\t0\n", "utf-8")
    found = sts_b(file)
    assert [one.text for one in found.corpora["all"]] == ["二", "四", "六", "七"]
    assert [(asked.text, set(asked.gold)) for asked in found.questions] == [("一", {"二"}), ("五", {"六"})]


def test_of_lcqmc_five_hundred_pairs_are_asked_among_three_thousand_questions(tmp_path: Path) -> None:
    file = tmp_path / "lcqmc.txt"
    lines = [f"问{number}\t答{number}\t{number % 2}" for number in range(4000)]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    found = lcqmc(file)
    assert (len(found.questions), len(found.corpora["all"])) == (500, 3000)
    known = {one.id for one in found.corpora["all"]}
    assert all(asked.gold <= known for asked in found.questions)


def test_a_row_that_has_not_three_columns_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "sts.txt"
    file.write_text("一\t二\n", "utf-8")
    with pytest.raises(SetError, match="line 1"):
        sts_b(file)


def test_without_the_folder_each_set_says_where_it_is_and_on_which_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VCP_BENCH_DATA", raising=False)
    told: list[str] = []
    assert list(public_sets(told.append)) == []
    assert len(told) == 4
    assert all("not measured (VCP_BENCH_DATA is not set)" in line and "terms: " in line for line in told)


def test_a_set_whose_file_is_missing_is_not_measured_and_the_others_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sts-b-zh-test.txt").write_text("一\t二\t5\n", "utf-8")
    monkeypatch.setenv("VCP_BENCH_DATA", str(tmp_path))
    told: list[str] = []
    assert [found.name for found in public_sets(told.append)] == ["STS-B zh"]
    assert len(told) == 3 and all("is not there" in line for line in told)


def test_an_entry_of_the_diaries_keeps_its_day_author_and_tags_in_the_header() -> None:
    made = generate(1)
    found = diaries(made)
    assert found.by_document and found.now == made.now
    first, note = found.corpora["all"][0], made.notes[0]
    assert first.document == note.path and first.day == note.day
    assert note.day.isoformat() in first.header and note.author in first.header
    assert all(tag in first.header for tag in note.tags) and "Tag:" not in first.text
