"""The configuration as a whole: order of sources, places of problems (2.1, B31, P64, P89)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.dotenv import quote
from app.config.snapshot import Config, Problem, load
from app.errors import ConfigError


def written(home: Path, text: str) -> Path:
    (home / "config.env").write_text(text, encoding="utf-8", newline="")
    return home


def test_a_first_start_needs_no_file(tmp_path: Path) -> None:
    config = load(tmp_path, {"PATH": "/bin"})
    assert config.settings.port == 6005
    assert dict(config.environ) == {"PATH": "/bin"}
    assert config.file_keys == frozenset()
    assert config.problems == ()


def test_all_keys_of_the_file_take_effect_without_any_in_the_environment(tmp_path: Path) -> None:
    config = load(written(tmp_path, "PORT=7001\nKey=secret\nAPI_URL=http://127.0.0.1:9\nREPORT_TIMEZONE=UTC\n"), {})
    settings = config.settings
    assert (settings.port, settings.key, settings.api_url) == (7001, "secret", "http://127.0.0.1:9")
    assert config.report_zone.key == "UTC"


def test_the_process_environment_wins_even_when_blank_and_options_win_over_both(tmp_path: Path) -> None:
    home = written(tmp_path, "PORT=7001\nShowVCP=true\nKey=file\nVarA=file\n")
    config = load(home, {"PORT": "7002", "ShowVCP": "", "VarA": "system"}, {"PORT": "7003"})
    assert config.settings.port == 7003
    assert config.settings.show_vcp is False
    assert config.settings.key == "file"
    assert config.environ["PORT"] == "7003"
    assert config.environ["VarA"] == "system"
    assert config.file_keys == {"PORT", "ShowVCP", "Key", "VarA"}


def test_the_environment_is_ordered_system_first_then_file(tmp_path: Path) -> None:
    home = written(tmp_path, "VarC=c\nVarB=b\nVarA=a\nVarC=c2\n")
    config = load(home, {"Z": "z", "VarA": "system"}, {"HOST": "::1", "VarB": "option"})
    assert list(config.environ.items()) == [
        ("Z", "z"),
        ("VarA", "system"),
        ("VarC", "c2"),
        ("VarB", "option"),
        ("HOST", "::1"),
    ]
    assert config.families.variables == (("VarA", "system"), ("VarC", "c2"), ("VarB", "option"))


@pytest.mark.parametrize(
    ("text", "zone", "report_zone"),
    [
        ("", "Asia/Shanghai", "Asia/Shanghai"),
        ("DEFAULT_TIMEZONE=Europe/Berlin", "Europe/Berlin", "Europe/Berlin"),
        ("REPORT_TIMEZONE=UTC", "Asia/Shanghai", "UTC"),
        ("DEFAULT_TIMEZONE=Europe/Berlin\nREPORT_TIMEZONE=UTC", "Europe/Berlin", "UTC"),
        ("DEFAULT_TIMEZONE=Europe/Berlin\nREPORT_TIMEZONE=Nowhere", "Europe/Berlin", "Europe/Berlin"),
        ("DEFAULT_TIMEZONE=Nowhere", "Asia/Shanghai", "Asia/Shanghai"),
    ],
)
def test_the_zones_of_the_file_are_honoured(tmp_path: Path, text: str, zone: str, report_zone: str) -> None:
    config = load(written(tmp_path, text), {})
    assert (config.zone.key, config.report_zone.key) == (zone, report_zone)


def test_a_problem_names_file_line_key_and_remedy_in_one_line(tmp_path: Path) -> None:
    home = written(
        tmp_path, '\ufeff# settings\n\nVarText="l1\nl2"\nMaxVCPLoopStream=abc # rounds\nPORT=1\nDetector1=x\n'
    )
    config = load(home, {})
    path = str(tmp_path / "config.env")
    assert list(map(str, config.problems)) == [
        f'{path}:5: MaxVCPLoopStream: "abc" is not a whole number from 1 to 1000; using the default (5)',
        f"{path}:7: Detector1: is not used: Detector_Output1 is not set or empty",
    ]
    assert config.settings.port == 1
    assert config.settings.max_vcp_loop_stream == 5


def test_a_problem_names_the_environment_or_the_command_line_when_the_value_comes_from_there(tmp_path: Path) -> None:
    config = load(written(tmp_path, "ApiRetries=5\nPORT=1\n"), {"ApiRetries": "x", "PORT": "2"}, {"PORT": "y"})
    assert {(problem.file, problem.line, problem.key) for problem in config.problems} == {
        ("environment", None, "ApiRetries"),
        ("command line", None, "PORT"),
    }


def test_of_a_repeated_key_the_line_of_the_last_one_is_named(tmp_path: Path) -> None:
    (problem,) = load(written(tmp_path, "PORT=1\n\nPORT=x\n"), {}).problems
    assert problem.line == 3


def test_comments_commas_marks_and_unknown_keys_stop_nothing(tmp_path: Path) -> None:
    config = load(written(tmp_path, '\ufeffPORT=7001, # trailing comma\n// note\n{"A": 1},\nNope=1\nKey=k\n'), {})
    assert config.settings.key == "k"
    (problem,) = config.problems
    assert (problem.line, problem.key) == (1, "PORT")


def test_a_value_that_no_process_could_be_given_is_left_out(tmp_path: Path) -> None:
    config = load(written(tmp_path, "VarA=a\0b\nVarB=b\n"), {})
    assert dict(config.environ) == {"VarB": "b"}
    assert config.file_keys == {"VarB"}
    (problem,) = config.problems
    assert (problem.line, problem.key) == (1, "VarA")


def test_an_old_encoding_is_a_problem_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_bytes("VarUser=莱恩先生\nPORT=7001\n".encode("gb18030"))
    config = load(tmp_path, {})
    assert config.families.variables == (("VarUser", "莱恩先生"),)
    assert "GB18030" in str(config.problems[0])


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.env").mkdir()
    with pytest.raises(ConfigError):
        load(tmp_path, {})


def test_the_snapshot_is_immutable_and_shows_no_secrets(tmp_path: Path) -> None:
    environ = {"API_Key": "pa55word"}
    config = load(written(tmp_path, "Key=pa55word\nVarX=pa55word\n"), environ)
    with pytest.raises(TypeError):
        config.environ["A"] = "b"  # type: ignore[index]  # the very thing that must fail
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.problems = ()  # type: ignore[misc]  # the very thing that must fail
    environ["API_Key"] = "changed"
    assert config.settings.api_key == config.environ["API_Key"] == "pa55word"
    assert "pa55word" not in repr(config)


def test_home_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(Path(), {}).home == tmp_path


def test_a_problem_without_line_or_key_is_still_one_clear_line() -> None:
    assert str(Problem("config.env", None, "", "odd")) == "config.env: odd"
    assert str(Problem("config.env", 3, "A", "odd")) == "config.env:3: A: odd"


KEYS = st.sampled_from(
    ["PORT", "Key", "ShowVCP", "VarA", "VarB", "TarC", "SarModel1", "SarPrompt1", "Detector1", "Other"]
)
TEXTS = st.text(st.characters(exclude_characters="\r\"'`\\\0", exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(KEYS, TEXTS, min_size=1), st.data())
def test_editing_one_key_changes_exactly_one_value(values: dict[str, str], data: st.DataObject) -> None:
    edited = data.draw(st.sampled_from(list(values)))
    value = data.draw(TEXTS.filter(lambda text: text != values[edited]))
    before, after = _loaded(values), _loaded({**values, edited: value})
    assert list(before.environ) == list(after.environ) == list(values)
    assert [key for key in values if before.environ[key] != after.environ[key]] == [edited]
    assert after.environ[edited] == value


def _loaded(values: Mapping[str, str]) -> Config:
    with TemporaryDirectory() as home:
        text = "".join(f"# about {key}\n{key}={quote(value)} # it's said\n" for key, value in values.items())
        return load(written(Path(home), text), {})
