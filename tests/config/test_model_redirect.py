"""``ModelRedirect.json`` and files that are read live (spec 1.4, 1.5; P67, P68)."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from app.config.live_file import LOOK_SECONDS
from app.config.model_redirect import FILE_NAME, MAX_FILE_BYTES, ModelRedirect


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def write(home: Path, content: object) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (home / FILE_NAME).write_text(text, encoding="utf-8")


def test_p67_comments_are_no_models_however_often_they_come(tmp_path: Path) -> None:
    write(tmp_path, '\ufeff{"//": "one", "//": "two", "#x": "y", "// z": "z", "公开": "internal-1", "//": "three"}')
    redirect = ModelRedirect(tmp_path, Clock())
    assert redirect.internal("公开") == "internal-1"
    assert redirect.internal("//") == "//"
    assert dict(redirect.public_names()) == {"internal-1": "公开"}


def test_names_are_equal_to_the_letter_and_what_is_no_text_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"Fast": "a", "n": 7, "l": ["a"], "none": None, "blank": "", "": "b", "chain": "Fast"})
    redirect = ModelRedirect(tmp_path, Clock())
    asked = ("Fast", "fast", " Fast", "n", "l", "none", "blank", "", "chain", "a")
    assert [redirect.internal(name) for name in asked] == ["a", "fast", " Fast", *asked[3:8], "Fast", "a"]


def test_of_several_public_names_the_last_in_the_file_is_shown(tmp_path: Path) -> None:
    write(tmp_path, {"first": "x", "other": "y", "last": "x"})
    assert dict(ModelRedirect(tmp_path, Clock()).public_names()) == {"x": "last", "y": "other"}


def test_the_file_is_read_again_when_it_changed_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    redirect = ModelRedirect(tmp_path, clock)
    assert redirect.internal("a") == "a"
    write(tmp_path, {"a": "1"})
    assert redirect.internal("a") == "a"  # it is not looked at for every request
    clock.now += LOOK_SECONDS
    assert redirect.internal("a") == "1"
    for broken in ('{"a": "2', "[]", "null", "", "[" * 100_000, '{"a": "2"}' + " " * MAX_FILE_BYTES):
        caplog.clear()
        write(tmp_path, broken)
        for _ in range(2):
            clock.now += LOOK_SECONDS
            assert redirect.internal("a") == "1"
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
    (tmp_path / FILE_NAME).write_bytes(b'{"a": "\xff"}')
    clock.now += LOOK_SECONDS
    assert redirect.internal("a") == "1"
    write(tmp_path, {"a": "3"})
    clock.now += LOOK_SECONDS
    assert redirect.internal("a") == "3"
    (tmp_path / FILE_NAME).unlink()
    clock.now += LOOK_SECONDS
    assert (redirect.internal("a"), dict(redirect.public_names())) == ("a", {})


def test_a_folder_in_its_place_is_told_once_and_is_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE_NAME).mkdir()
    clock = Clock()
    redirect = ModelRedirect(tmp_path, clock)
    for _ in range(3):
        assert redirect.internal("a") == "a"
        clock.now += LOOK_SECONDS
    assert len(caplog.records) == 1
