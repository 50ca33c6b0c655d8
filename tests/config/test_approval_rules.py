"""``toolApprovalConfig.json``: which rule is about a call, and a file that people edit (spec 7.6; D4, D73, P89)."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.approval_rules import (
    DEFAULT_MINUTES,
    FILE_NAME,
    GONE_SECONDS,
    LOCKED,
    MAX_FILE_BYTES,
    MAX_MINUTES,
    MAX_RULE_CHARS,
    MAX_RULES,
    NO_RULES,
    ApprovalFile,
    ApprovalFileError,
    ApprovalRules,
    read_rules,
    rule_key,
)


def rules(*listed: Any, **more: Any) -> ApprovalRules:
    return read_rules(json.dumps({"enabled": True, "approvalList": list(listed), **more}).encode())[0]


def verdict(found: ApprovalRules, tool: str = "T", *commands: str) -> str:
    need = found.need([tool], [f"{tool}:{command}" for command in commands])
    return "free" if need is None else "silent" if need.silent else "ask"


@pytest.mark.parametrize(
    ("listed", "commands", "expected"),
    [
        ([], ["c"], "free"),
        (["T"], [], "ask"),
        (["T"], ["c"], "ask"),
        (["T::SilentReject"], ["c"], "silent"),
        (["U"], ["c"], "free"),
        (["T:c"], ["c"], "ask"),
        (["T:c"], ["d"], "free"),
        (["T:c"], [], "free"),
        (["T:c::SilentReject"], ["c"], "silent"),
        (["T::SilentReject", "T:c"], ["c"], "ask"),  # the command's rule beats the tool's
        (["T", "T:c::SilentReject"], ["c"], "silent"),
        (["T", "T:c::SilentReject"], ["d"], "ask"),
        (["T", "T::SilentReject"], [], "silent"),  # at equal scope the silent one wins
        (["T::SilentReject", "T"], [], "silent"),
        (["T:c", "T:c::SilentReject"], ["c"], "silent"),
        (["T:c", "T:d::SilentReject"], ["c", "d"], "silent"),
        (["t"], [], "ask"),  # names are compared as D4 compares them
        (["T:Read-File"], ["read_file"], "ask"),
        ([" T : c "], ["c"], "ask"),
        (["T:c::silentreject"], ["c"], "silent"),
        (["T:"], ["c"], "ask"),
        (["T:Get-Item C:\\x y"], ["get-item  C:\\x y"], "ask"),
        (["Ｔ：ｃ"], ["c"], "ask"),  # as an input method writes it
        (["T : c :: SilentReject"], ["c"], "silent"),
        (["T ：：silent-reject"], [], "silent"),
        (["\u200bT\ufeff:\u00a0c"], ["c"], "ask"),  # copied from a page
        (["T:c"], ["\ufeffc\u200b"], "ask"),  # JavaScript's trim takes U+FEFF away
        (["T:WriteFile"], ["ＷｒｉｔｅＦｉｌｅ"], "ask"),
        (["T:WriteFile"], ["wr\u0131teﬁle"], "ask"),  # in capitals it is the same
        (["T:strasse"], ["STRAßE"], "ask"),
        (["T:Write File"], ["write\u2011file"], "ask"),
        (["T:c"], [" " * 1_000_000 + "c"], "ask"),
        (["T:" + "c" * 1000], ["c" * 1001], "free"),
    ],
)
def test_the_rule_that_holds(listed: list[str], commands: list[str], expected: str) -> None:
    assert verdict(rules(*listed), "T", *commands) == expected


@given(st.text(max_size=12) | st.text(alphabet="aB:_- \u00a8\u0344\u0390ﬁİıßς#.", max_size=12))
def test_the_key_of_a_key_is_the_key_and_capitals_change_none(text: str) -> None:
    key = rule_key(text)
    assert rule_key(key) == key
    assert {rule_key(f"a{text.upper()}"), rule_key(f"a{text.lower()}")} == {rule_key(f"a{text}")}


def test_a_rule_that_is_longer_than_a_name_or_has_one_colon_for_two_is_told() -> None:
    found, problems = read_rules(
        json.dumps({"enabled": True, "approvalList": ["x" * (MAX_RULE_CHARS + 1), "T:SilentReject"]}).encode()
    )
    assert list(found.rules) == ["t:silentreject"]
    assert ["is no rule" in problems[0].reason, "::SilentReject" in problems[1].reason] == [True, True]


NAMES = st.sampled_from(["T", "U"])
COMMANDS = st.sampled_from(["", "a", "b"])


@given(
    st.lists(st.tuples(NAMES, COMMANDS, st.booleans()), max_size=6),
    NAMES,
    st.sets(COMMANDS.filter(bool)),
    st.booleans(),
)
def test_every_combination_of_rules_follows_scope_then_silence(
    listed: list[tuple[str, str, bool]], tool: str, commands: set[str], everything: bool
) -> None:
    texts = [
        name + (f":{command}" if command else "") + ("::SilentReject" if silent else "")
        for name, command, silent in listed
    ]
    narrow = [silent for name, command, silent in listed if name == tool and command in commands]
    wide = [silent for name, command, silent in listed if name == tool and not command]
    chosen = narrow or wide
    expected = ("silent" if any(chosen) else "ask") if chosen else "ask" if everything else "free"
    assert verdict(rules(*texts, approveAll=everything), tool, *commands) == expected
    assert verdict(rules(*texts, approveAll=everything, enabled=False), tool, *commands) == "free"


def test_everything_needs_approval_with_approve_all_and_listed_rules_keep_their_silence() -> None:
    assert verdict(rules(approveAll=True)) == "ask"
    assert verdict(rules("T::SilentReject", approveAll=True)) == "silent"


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (5, 5),
        (0.5, 0.5),
        (10**9, MAX_MINUTES),
        (0, DEFAULT_MINUTES),
        (-1, DEFAULT_MINUTES),
        ("7", DEFAULT_MINUTES),
        (None, DEFAULT_MINUTES),
        (True, DEFAULT_MINUTES),
        (10**400, MAX_MINUTES),
    ],
)
def test_the_time_to_decide(minutes: Any, expected: float) -> None:
    assert rules(timeoutMinutes=minutes).seconds == expected * 60


def test_odd_files_are_read_and_what_is_odd_is_told_with_its_line() -> None:
    """P89: comments, a trailing comma, a byte-order mark, unknown keys and bad entries lose only themselves."""
    text = (
        "\ufeff{ // mine\n"
        '"enabled": true,\n'
        '"timeoutMinutes": "soon",\n'
        '"approvalList": ["T", 5, "", ":c", null,],\n'
        '"fuzzyToolMatching": true,\n'
        '"colour": 1,\n'
        "}"
    )
    found, problems = read_rules(text.encode())
    assert found.enabled and list(found.rules) == ["t"] and found.seconds == 300
    assert [(problem.line, problem.key) for problem in problems] == [
        (1, ""),
        (1, ""),
        (4, ""),
        (6, ""),
        (6, "colour"),
        (5, "fuzzyToolMatching"),
        (3, "timeoutMinutes"),
        *[(4, "approvalList")] * 4,
    ]


@pytest.mark.parametrize("value", [True, 1, "false", [], {}])
def test_a_switch_that_is_no_switch_counts_as_javascript_reads_it(value: Any) -> None:
    """``"false"`` is on: who wrote it meant to have rules, and a mistake must not open the door."""
    assert read_rules(json.dumps({"enabled": value}).encode())[0].enabled


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"{", 1),
        (b"[]", None),
        (b'{"enabled": true,\n"approvalList": ["T"', 2),
        (b'{"enabled":\n\xff', 2),
        (b'{"enabled": true, "approvalList": "T"}', None),
        (b'{"a": ' + b"[" * 100_000, None),
        (json.dumps({"approvalList": ["T"] * (MAX_RULES + 1)}).encode(), None),
        (b'{"timeoutMinutes": NaN}', None),
    ],
)
def test_a_file_of_no_use_is_refused_whole(data: bytes, line: int | None) -> None:
    with pytest.raises(ApprovalFileError) as refused:
        read_rules(data)
    assert refused.value.line == line
    assert " / " in refused.value.message


def test_a_rule_about_a_node_is_also_known_without_the_node() -> None:
    found = rules("gpu#Draw:big", "PowerShell:echo #x")
    assert set(found.rules) == {"gpu#draw:big", "#draw:big", "powershell:echo#x"}


class Home:
    """A home whose file is looked at."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.now = 0.0
        self.file = ApprovalFile(folder, lambda: self.now)

    def write(self, **value: Any) -> None:
        self.path.write_text(json.dumps({"enabled": True, **value}))

    def asks(self, tool: str = "T") -> bool:
        return self.file.rules().need([tool], []) is not None


def test_without_a_file_nothing_needs_approval(tmp_path: Path) -> None:
    assert ApprovalFile(tmp_path, lambda: 0.0).rules() is NO_RULES


def test_the_next_call_sees_what_was_saved(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert not home.asks()
    home.write(approvalList=["T"])
    assert home.asks()
    home.write(approvalList=["Other"])
    assert not home.asks()
    other = tmp_path / "other.json"
    other.write_text('{"enabled": true, "approveAll": true}')
    home.path.unlink()
    home.path.symlink_to(other)
    assert home.asks()


def test_a_broken_file_leaves_the_last_good_one_in_force(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = Home(tmp_path)
    home.write(approvalList=["T"])
    assert home.asks()
    home.path.write_text('{"enabled": fal')
    assert home.asks()
    assert not home.asks("Other")
    home.path.write_bytes(b"")
    assert home.asks()
    assert "stay as they were" in caplog.text
    home.write(enabled=False)
    assert not home.asks()


@pytest.mark.parametrize("content", [b"{", b"", b"\xff", b"x" * (MAX_FILE_BYTES + 1)])
def test_a_file_that_was_never_readable_closes_the_door(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home(tmp_path)
    home.path.write_bytes(content)
    assert home.file.rules() is LOCKED
    assert home.asks("anything")
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "every tool call needs approval" in told.getMessage()
    home.write()
    assert not home.asks("anything")


def test_something_else_of_this_name_closes_the_door(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    assert ApprovalFile(tmp_path, lambda: 0.0).rules() is LOCKED


def test_a_file_that_vanishes_is_in_force_for_the_moment_that_an_editor_needs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(approvalList=["T"])
    assert home.asks()
    home.path.unlink()
    assert home.asks()
    home.now += GONE_SECONDS - 0.1
    assert home.asks()
    home.write(approvalList=["T", "U"])
    home.now += 1
    assert home.asks("U")
    home.path.unlink()
    assert home.asks()
    home.now += GONE_SECONDS
    assert not home.asks()


def test_the_example_of_the_documents_is_in_order() -> None:
    text = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
    example = text.partition("## Approval")[2].partition("```json\n")[2].partition("```")[0]
    found, problems = read_rules(example.encode())
    assert problems == ()
    assert found.enabled and len(found.rules) == 3
