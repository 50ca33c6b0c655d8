"""Tokens of callbacks: bound to plugin and task, durable, bounded, closed to others (D19, B4)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from app.tools import callback_tokens
from app.tools.callback_tokens import CallbackTokens


@pytest.fixture
def tokens(tmp_path: Path) -> CallbackTokens:
    return CallbackTokens(tmp_path / ".vcp" / "callbacks", time.time)


def again(tmp_path: Path) -> CallbackTokens:
    """The tokens as another process, or a later one, finds them."""
    return CallbackTokens(tmp_path / ".vcp" / "callbacks", time.time)


def test_a_token_is_for_its_plugin_only(tokens: CallbackTokens) -> None:
    token = tokens.issue("P")
    assert not tokens.accepts(token, "Q", "1")
    assert tokens.accepts(token, "P", "1")


def test_the_first_callback_binds_an_unbound_token_to_its_task(tokens: CallbackTokens) -> None:
    token = tokens.issue("P")
    assert tokens.accepts(token, "P", "1")
    assert tokens.accepts(token, "P", "1")
    assert not tokens.accepts(token, "P", "2")


def test_the_first_answer_binds_a_token_to_its_tasks(tokens: CallbackTokens) -> None:
    token = tokens.issue("P")
    tokens.bind(token, "P", ("1", "2"))
    assert tokens.accepts(token, "P", "2")
    assert not tokens.accepts(token, "P", "3")


def test_a_callback_before_the_first_answer_and_the_answers_tasks_are_both_taken(tokens: CallbackTokens) -> None:
    token = tokens.issue("P")
    assert tokens.accepts(token, "P", "early")
    tokens.bind(token, "P", ("named",))
    assert tokens.accepts(token, "P", "early")
    assert tokens.accepts(token, "P", "named")


def test_an_answer_without_a_task_leaves_the_token_unbound(tokens: CallbackTokens) -> None:
    token = tokens.issue("P")
    tokens.bind(token, "P", ())
    assert tokens.accepts(token, "P", "any")


def test_tokens_and_tasks_outlive_the_process(tokens: CallbackTokens, tmp_path: Path) -> None:
    token = tokens.issue("P")
    tokens.bind(token, "P", ("1",))
    tokens.learn("P", ("1",))
    later = again(tmp_path)
    assert later.accepts(token, "P", "1")
    assert not later.accepts(token, "P", "2")
    assert later.knows("P", "1")
    assert not later.knows("P", "2")
    assert not later.knows("Q", "1")


def test_a_withdrawn_token_is_worth_nothing(tokens: CallbackTokens) -> None:
    token = tokens.issue("P")
    tokens.withdraw(token)
    tokens.withdraw(token)
    assert not tokens.accepts(token, "P", "1")


@pytest.mark.parametrize("token", ["", "x", "../../config.env", "a\0b", "\ud800", "x" * 100_000])
def test_what_was_never_handed_out_is_refused(tokens: CallbackTokens, token: str) -> None:
    tokens.issue("P")
    assert not tokens.accepts(token, "P", "1")


def test_the_files_are_closed_to_others_and_do_not_hold_the_token(tokens: CallbackTokens, tmp_path: Path) -> None:
    token = tokens.issue("P")
    tokens.learn("P", ("1",))
    folder = tmp_path / ".vcp" / "callbacks"
    files = list(folder.iterdir())
    assert len(files) == 2
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in files:
        assert file.stat().st_mode & 0o777 == 0o600
        assert token not in file.name + file.read_text()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b'{"plugin":1,"tasks":[]}', b'{"plugin":"P"}'])
def test_a_damaged_file_is_no_token_and_no_error(tokens: CallbackTokens, tmp_path: Path, content: bytes) -> None:
    token = tokens.issue("P")
    (file,) = (tmp_path / ".vcp" / "callbacks").iterdir()
    file.write_bytes(content)
    assert not tokens.accepts(token, "P", "1")
    tokens.bind(token, "P", ("1",))
    assert not tokens.accepts(token, "P", "1")


def test_old_and_surplus_files_go_and_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback_tokens, "PRUNE_EACH", 1)
    monkeypatch.setattr(callback_tokens, "KEPT_FILES", 3)
    tokens = again(tmp_path)
    folder = tmp_path / ".vcp" / "callbacks"
    old = tokens.issue("P")
    (file,) = folder.iterdir()
    os.utime(file, (time.time() - 31 * 86_400,) * 2)
    (folder / "notes.txt").write_text("mine")
    newest = [tokens.issue("P") for _ in range(6)]
    assert not tokens.accepts(old, "P", "1")
    assert not tokens.accepts(newest[0], "P", "1")
    assert all(tokens.accepts(token, "P", "1") for token in newest[-3:])
    assert len(list(folder.glob("token-*"))) <= 4
    assert (folder / "notes.txt").read_text() == "mine"
