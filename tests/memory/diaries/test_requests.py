"""Arguments and settings of the diary tools (memory.md 1.5, 1.6; D81)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.memory.diaries.files import DiaryError
from app.memory.diaries.requests import MAX_INPUT_BYTES, Note, read_arguments, read_note, read_settings, text_argument

NOTE = {"maidName": "Nova", "dateString": "2025.11.27", "contentText": "Walked."}


@pytest.mark.parametrize("maid", ["maidName", "maid", "Maid", "MAID"])
@pytest.mark.parametrize("date", ["dateString", "Date", "date"])
@pytest.mark.parametrize("content", ["contentText", "Content", "content"])
def test_every_name_of_an_argument_is_taken(maid: str, date: str, content: str) -> None:
    assert read_note({maid: "m", date: "d", content: "c"}) == Note("m", "d", "c")


def test_a_blank_name_does_not_hide_a_filled_one() -> None:
    assert read_note(NOTE | {"maidName": " ", "maid": "小克"}).maid == "小克"


@pytest.mark.parametrize("name", list(NOTE))
@pytest.mark.parametrize("value", ["", "  \n ", None])
def test_a_blank_field_is_named(name: str, value: object) -> None:
    with pytest.raises(DiaryError, match=name):
        read_note(NOTE | {name: value})


@pytest.mark.parametrize("value", [["a"], {"a": 1}, True])
def test_a_field_that_is_no_text_is_named(value: object) -> None:
    with pytest.raises(DiaryError, match="contentText"):
        read_note(NOTE | {"contentText": value})


def test_a_number_is_text() -> None:
    assert read_note(NOTE | {"dateString": 20251127}).date == "20251127"


@pytest.mark.parametrize("data", [b"{oops", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000, b"{}", b" \n"])
def test_input_that_is_no_note_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(DiaryError):
        read_note(read_arguments(data))


def test_input_beyond_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(DiaryError, match="split"):
        read_arguments(b" " * (MAX_INPUT_BYTES + 1))


def test_half_a_character_becomes_a_whole_mark() -> None:
    assert text_argument({"a": "x\ud83d"}, "a") == "x\ufffd"


def test_settings_that_cannot_be_used_give_the_default_and_a_warning(tmp_path: Path) -> None:
    settings = read_settings(
        {"PROJECT_BASE_PATH": str(tmp_path), "DEFAULT_TIMEZONE": "Mars/Base", "DAILY_NOTE_EXTENSION": "exe"}
    )
    assert (settings.root, settings.zone.key, settings.extension) == (tmp_path / "dailynote", "Asia/Shanghai", "txt")
    assert len(settings.warnings) == 2


@pytest.mark.parametrize("base", ["", "/nowhere/at/all"])
def test_a_call_without_a_home_is_refused(base: str) -> None:
    with pytest.raises(DiaryError, match="PROJECT_BASE_PATH"):
        read_settings({"PROJECT_BASE_PATH": base})
