"""What saving a changed config.env would mean, told before: problems by key and line, differences, restarts."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from app.config.env_review import (
    MASK,
    MAX_COMPARED_LINES,
    MAX_SHOWN_LINES,
    DiffLine,
    differences,
    environment_of,
    review,
)
from app.config.setting_forms import SettingForm, is_secret, setting_form
from app.config.snapshot import load


def shown(lines: list[DiffLine]) -> list[str]:
    marks = {"same": " ", "gone": "-", "new": "+", "gap": "~"}
    return [marks[line.kind] + line.text for line in lines]


def test_problems_name_key_and_line_and_those_that_were_there_before_are_no_news(tmp_path: Path) -> None:
    found = review(tmp_path, "PORT=abc\n", "# new\nPORT=abc\nApiRetries=0\nSarModel1=m\nMaxVCPLoopStream=5\n", {})
    assert [(problem.line, problem.key) for problem in found.problems] == [
        (2, "PORT"),
        (3, "ApiRetries"),
        (4, "SarModel1"),
    ]
    assert [problem.key for problem in found.new_problems] == ["ApiRetries", "SarModel1"]
    assert "is not a whole number from 1 to 100" in found.new_problems[0].reason
    assert found.refusal == ""


def test_a_quote_that_is_not_closed_is_a_problem(tmp_path: Path) -> None:
    found = review(tmp_path, "", 'VarA="open\nB=1', {})
    assert [(problem.line, problem.key) for problem in found.problems] == [(1, "VarA")]


def test_what_the_server_could_not_start_with_is_refused(tmp_path: Path) -> None:
    assert "placeholder" in review(tmp_path, "", "HOST=0.0.0.0\nKey=please-change-me", {}).refusal
    assert "placeholder" in review(tmp_path, "", "Key=please-change-me", {"HOST": "0.0.0.0"}).refusal
    assert "ToolSocketPort" in review(tmp_path, "", "PORT=6005\nToolSocketPort=6005", {}).refusal


def test_whoever_saves_does_not_close_the_panel_behind_themselves(tmp_path: Path) -> None:
    with_both = "AdminUsername=a\nAdminPassword=b"
    for emptied in ("AdminUsername=a\nAdminPassword=", "AdminPassword=b", ""):
        assert "AdminPassword is empty" in review(tmp_path, with_both, emptied, {}).refusal
    assert review(tmp_path, with_both, "", {"AdminUsername": "a", "AdminPassword": "b"}).refusal == ""
    assert review(tmp_path, with_both, "AdminUsername=c\nAdminPassword=d", {}).refusal == ""
    assert review(tmp_path, "", "PORT=1", {}).refusal == ""  # the password may be a generated one


def test_changed_settings_that_wait_for_a_restart_are_named(tmp_path: Path) -> None:
    found = review(tmp_path, "PORT=1\nKey=a\nShowVCP=true", "PORT=2\nKey=a\nShowVCP=false\nHOST=::1", {})
    assert found.keys == ("PORT", "ShowVCP", "HOST")
    assert found.restart == ("PORT", "HOST")
    assert review(tmp_path, "PORT=1", "PORT=2", {"PORT": "3"}).restart == ()


def test_the_variables_of_the_operating_system_are_told_from_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("A=1\nB=2\n")
    config = load(tmp_path, {"B": "2", "C": "3"}, {"PORT": "7"})
    assert environment_of(config) == {"B": "2", "C": "3", "PORT": "7"}


def test_differences_have_context_and_numbers() -> None:
    before = "\n".join(f"K{n}={n}" for n in range(20))
    found = differences(before, before.replace("K9=9", "K9=x").replace("K19=19", "K19=y"), secrets=False)
    assert shown(found) == [
        *(" K6=6", " K7=7", " K8=8", "-K9=9", "+K9=x", " K10=10", " K11=11", " K12=12"),
        "~",
        *(" K16=16", " K17=17", " K18=18", "-K19=19", "+K19=y"),
    ]
    assert found[3] == DiffLine("gone", "K9=9", 10, None)
    assert found[4] == DiffLine("new", "K9=x", None, 10)


def test_equal_texts_and_other_line_ends_have_no_differences() -> None:
    assert differences("A=1\nB=2\n", "A=1\r\nB=2\r\n", secrets=True) == []
    assert differences("", "", secrets=True) == []


def test_secrets_in_differences_are_masked_unless_they_are_asked_for() -> None:
    before, after = "Key=one-secret # mine\nVarKey=text\n", 'Key="two\nsecrets" # mine\nVarKey=text\n'
    masked = "\n".join(shown(differences(before, after, secrets=False)))
    assert "secret" not in masked
    assert f"-Key={MASK} # mine" in masked
    assert f"+Key={MASK}\n+{MASK} # mine" in masked
    assert "VarKey=text" in masked
    assert "two" in "\n".join(shown(differences(before, after, secrets=True)))


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_gone_lines_are_of_the_one_and_new_lines_of_the_other(old: list[str], new: list[str]) -> None:
    for line in differences("\n".join(old), "\n".join([*new, ""]), secrets=True):
        if line.before is not None:
            assert old[line.before - 1] == line.text
        if line.after is not None:
            assert new[line.after - 1] == line.text


def test_very_long_texts_are_not_compared_line_by_line() -> None:
    before = "\n".join(f"A{n}=1" for n in range(6000))
    found = differences(before, "\n".join(f"B{n}=1" for n in range(6000)), secrets=True)
    assert len(found) == MAX_SHOWN_LINES + 1
    assert found[-1].kind == "gap"


def test_texts_of_few_different_lines_are_compared_in_bounded_time() -> None:
    count = MAX_COMPARED_LINES // 2 - 10
    found = differences("a\nb\n" * count, "b\nc\n" * count, secrets=True)
    assert {line.text for line in found if line.kind == "gone"} <= {"a", "b"}
    assert {line.text for line in found if line.kind == "new"} <= {"b", "c"}


def test_forms_know_kind_default_range_and_secrets() -> None:
    assert setting_form("PORT") == SettingForm("PORT", "whole", "6005", "0", "65535", restart=True)
    assert setting_form("ShowVCP").kind == "switch"
    assert setting_form("NativeTools").choices == ("off", "auto", "on")
    assert setting_form("CorsOrigins").default == "*"
    assert setting_form("AdminPassword").secret
    assert setting_form("Nobody") == SettingForm("Nobody")


def test_names_of_secrets() -> None:
    secrets = (
        "Key",
        "API_Key",
        "UpstreamProxy",
        "Upstream_fast_Key",
        "GITHUB_TOKEN",
        "MyPassword",
        "RerankApi",
        "Site_PWD",
        "X_AUTH",
    )
    assert [name for name in secrets if not is_secret(name)] == []
    plain = (
        "PORT",
        "VarKey",
        "TarPassword",
        "Detector_Output1",
        "WhitelistEmbeddingModelMaxToken",
        "TagModelMaxTokens",
    )
    assert [name for name in plain if is_secret(name)] == []
