"""Logins of the panel: kept as digests, bound to name and password, limited (D85)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.web.panel.sessions import MAX_SESSIONS, SESSION_SECONDS, SESSIONS_FILE, Sessions


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.credentials = ("admin", "pass")

    def sessions(self, home: Path) -> Sessions:
        return Sessions(home, lambda: self.credentials, lambda: self.now)


def test_a_login_holds_over_a_restart_and_ends_with_its_time(tmp_path: Path) -> None:
    world = World()
    token = world.sessions(tmp_path).begin()
    restarted = world.sessions(tmp_path)
    assert restarted.valid(token) and not restarted.valid("") and not restarted.valid(token + "x")
    world.now += SESSION_SECONDS + 1
    assert not restarted.valid(token)


@pytest.mark.parametrize("changed", [("admin", "other"), ("other", "pass"), ("adminp", "ass")])
def test_a_change_of_name_or_password_ends_all_logins(tmp_path: Path, changed: tuple[str, str]) -> None:
    world = World()
    sessions = world.sessions(tmp_path)
    token = sessions.begin()
    world.credentials = changed
    assert not sessions.valid(token)


def test_logout_ends_one_login_and_the_oldest_goes_for_one_too_many(tmp_path: Path) -> None:
    sessions = World().sessions(tmp_path)
    tokens = [sessions.begin() for _ in range(MAX_SESSIONS + 1)]
    assert not sessions.valid(tokens[0]) and all(sessions.valid(token) for token in tokens[1:])
    sessions.end(tokens[1])
    sessions.end("nobody's")
    assert not sessions.valid(tokens[1]) and sessions.valid(tokens[2])
    sessions.end_all()
    assert not any(sessions.valid(token) for token in tokens)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": 1}', b"{" * 100_000, b'{"a": ["x", "y"]}', b"\xff"])
def test_a_damaged_file_costs_the_logins_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / SESSIONS_FILE
    path.parent.mkdir()
    path.write_bytes(content)
    sessions = World().sessions(tmp_path)
    assert not sessions.valid("x") and sessions.valid(sessions.begin())


def test_a_disk_that_takes_nothing_leaves_the_login_of_now(tmp_path: Path) -> None:
    (tmp_path / ".vcp").write_text("not a folder", encoding="utf-8")
    sessions = World().sessions(tmp_path)
    assert sessions.valid(sessions.begin())
