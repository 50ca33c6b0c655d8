"""Findings about keys: weak ones are named, none is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.keys import KEY_FILE
from app.home.checks.findings import Level, Topic
from tests.home.checks.looked_at import about, looked_at, told
from tests.home.installations import write

GOOD = "a-good-key-of-its-own"


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("Key=short", "warning"),
        ("Key=please-change-me", "warning"),
        ("Key=undefined", "error"),
        ("AdminPassword=seven77", "warning"),
        ("File_Key=short", "warning"),
    ],
)
def test_a_weak_key_is_told_by_its_name(tmp_path: Path, line: str, level: str) -> None:
    name, _, value = line.partition("=")
    found = about(looked_at(tmp_path, line), Topic.KEYS, Level.ERROR, Level.WARNING)
    assert told(found) == [(level, "config.env", name)]
    assert value == "undefined" or value not in found[0].chinese + found[0].english


def test_a_placeholder_key_is_an_error_where_other_machines_get_in(tmp_path: Path) -> None:
    report = looked_at(tmp_path, "HOST=0.0.0.0", "Key=please-change-me")
    assert told(about(report, Topic.KEYS, Level.ERROR)) == [("error", "config.env", "Key")]


def test_two_keys_with_one_value_are_told(tmp_path: Path) -> None:
    report = looked_at(tmp_path, f"Key={GOOD}", f"Image_Key={GOOD}", f"AdminPassword={GOOD}2")
    assert told(about(report, Topic.KEYS)) == [("warning", "config.env", "Image_Key")]


def test_missing_keys_are_good_to_know_and_none_is_made(tmp_path: Path) -> None:
    report = looked_at(tmp_path, "PORT=6005")
    assert told(about(report, Topic.KEYS)) == [("note", "", "Key"), ("note", "", "AdminPassword")]
    assert not (tmp_path / ".vcp").exists()


def test_files_with_secrets_that_others_may_read_are_told_together(tmp_path: Path) -> None:
    write(tmp_path, "config.env", f"Key={GOOD}\nAdminPassword={GOOD}2\n").chmod(0o644)
    write(tmp_path, "Plugin/A/config.env", "X=1").chmod(0o640)
    write(tmp_path, "Plugin/B/config.env", "X=1").chmod(0o600)
    write(tmp_path, KEY_FILE.as_posix(), GOOD).chmod(0o604)
    (finding,) = about(looked_at(tmp_path), Topic.KEYS)
    assert finding.level is Level.WARNING
    assert "config.env, .vcp/server.key, Plugin/A/config.env" in finding.english
    assert "Plugin/B" not in finding.english


def test_a_key_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).mkdir(parents=True)
    (finding,) = about(looked_at(tmp_path, "PORT=6005"), Topic.KEYS)
    assert (finding.level, finding.file) == (Level.ERROR, KEY_FILE.as_posix())
