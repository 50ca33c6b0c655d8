"""Findings about ``config.env`` (P64, P89)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.home.checks.findings import Level, Topic
from tests.home.checks.looked_at import about, looked_at, told


def test_values_names_and_rules_that_do_nothing_are_told_with_their_lines(tmp_path: Path) -> None:
    report = looked_at(
        tmp_path,
        "API_URL=https://models.example.com",
        "MaxVCPLoopStream=many",
        "key=lower-case-has-no-effect",
        "ShowVCP=yes",
        "Detector1=alone",
        "AgentNova=Nova.txt",
        "VarA=1",
        "VarA=2",
        "VarA=2",
    )
    assert told(about(report, Topic.SETTINGS)) == [
        ("error", "config.env:2", "MaxVCPLoopStream"),
        ("error", "config.env:3", "key"),
        ("error", "config.env:4", "ShowVCP"),
        ("warning", "config.env:5", "Detector1"),
        ("warning", "config.env:8", "VarA"),
        ("warning", "config.env:9", "VarA"),
        ("note", "config.env:6", "AgentNova"),
    ]


def test_a_home_without_settings_is_fine(tmp_path: Path) -> None:
    report = looked_at(tmp_path)
    assert told(about(report, Topic.SETTINGS)) == [("note", "config.env", ""), ("note", "config.env", "API_URL")]
    assert report.count(Level.ERROR) == 0


def test_an_upstream_that_is_left_out_is_an_error_and_one_that_serves_is_no_demo(tmp_path: Path) -> None:
    report = looked_at(
        tmp_path,
        "Upstream_home_URL=http://127.0.0.1:11434",
        "Upstream_typo_URL=ftp://127.0.0.1",
        "upstream_low_url=http://127.0.0.1",
        "Upstream_none_Key=x",
    )
    assert told(about(report, Topic.SETTINGS)) == [
        ("error", "config.env:2", "Upstream_typo_URL"),
        ("error", "config.env:3", "upstream_low_url"),
        ("error", "config.env:4", "Upstream_none_Key"),
    ]


def test_a_variable_of_the_system_that_beats_the_file_is_told(tmp_path: Path) -> None:
    report = looked_at(
        tmp_path, "API_URL=https://a.example", "PORT=7000", "HOST=::1", environ={"PORT": "8000", "HOST": "::1"}
    )
    assert told(about(report, Topic.SETTINGS)) == [("warning", "config.env:2", "PORT")]


@pytest.mark.parametrize("bad", ["folder", "bytes"])
def test_a_config_that_cannot_be_read_is_an_error_and_the_rest_is_looked_at(tmp_path: Path, bad: str) -> None:
    if bad == "folder":
        (tmp_path / "config.env").mkdir()
    else:
        (tmp_path / "config.env").write_bytes(b"A=\xff\xff\x80\n")
    (tmp_path / "agent_map.json").write_text("{oops")
    report = looked_at(tmp_path)
    errors = [(found.topic, found.file) for found in report.findings if found.level is Level.ERROR]
    assert errors == [(Topic.SETTINGS, "config.env"), (Topic.PROMPTS, "agent_map.json")]


def test_a_file_in_another_encoding_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_bytes("API_URL=https://a.example\nVarCity=北京\n".encode("gb18030"))
    (finding,) = about(looked_at(tmp_path), Topic.SETTINGS)
    assert (finding.level, finding.place) == (Level.WARNING, "config.env:2")
    assert "GB18030" in finding.english
