"""The whole check: an old installation is read and left exactly as it was, and no secret is told."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.home.check import check_home
from app.home.checks.findings import Level
from app.home.checks.plugins import Status
from app.home.lock import own_home
from tests.home.checks.looked_at import ENVIRON
from tests.home.installations import SECRETS, old_installation, path_with_node, snapshot, write


def test_an_old_installation_is_understood(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    environ = {"PATH": path_with_node(tmp_path / "bin")}
    report = check_home(old_installation(tmp_path / "home"), environ)
    states = {plugin.name: plugin.status for plugin in report.plugins}
    assert report.count(Level.ERROR) == 0
    assert states["TavilySearch"] is Status.RUNS
    assert states["WeatherReporter"] is Status.RUNS
    assert states["MCPO"] is Status.BLOCKED
    assert states["ChromeBridge"] is Status.NOT_HERE
    assert states["ServerCodeSearcher"] is Status.BROKEN
    assert states["SciCalculator"] is Status.PROGRAM


def test_a_check_changes_nothing_starts_nothing_and_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = old_installation(tmp_path)
    before = snapshot(home)

    def forbidden(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a check must not do this")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    monkeypatch.setattr(socket.socket, "connect", forbidden)
    for name in ("mkdir", "rename", "replace", "unlink", "chmod", "link", "symlink"):
        monkeypatch.setattr(os, name, forbidden)
    check_home(home, ENVIRON)
    monkeypatch.undo()
    assert snapshot(home) == before


def test_no_secret_is_told_whatever_is_wrong_with_it(tmp_path: Path) -> None:
    home = old_installation(tmp_path)
    secret = "sk-this-is-a-secret-of-mine"
    lines = [f"Key={secret}", f"API_URL=ftp://user:{secret}@host", f"UpstreamProxy=socks5://u:{secret}@h"]
    write(home, "config.env", "\n".join([*lines, f"key={secret}", f"Image_Key={secret}", f"AdminPassword={secret}"]))
    write(home, "Plugin/TavilySearch/config.env", f"TavilyKey={secret}\nOther='{secret}")
    told = repr(check_home(home, {**ENVIRON, "File_Key": secret}))
    assert secret not in told


def test_no_secret_of_a_sound_installation_is_told(tmp_path: Path) -> None:
    told = repr(check_home(old_installation(tmp_path), ENVIRON))
    assert not [value for value in SECRETS.values() if value in told]


def test_who_uses_the_home_is_told(tmp_path: Path) -> None:
    assert check_home(tmp_path, ENVIRON).owner is None
    with own_home(tmp_path, "serve"):
        owner = check_home(tmp_path, ENVIRON).owner
    assert owner is not None
    assert owner.pid == os.getpid()


def test_findings_come_by_topic_the_worst_first(tmp_path: Path) -> None:
    home = old_installation(tmp_path)
    write(home, "agent_map.json", "{oops")
    write(home, "config.env", "PORT=x\nDetector1=y\n")
    findings = check_home(home, ENVIRON).findings
    topics = list(dict.fromkeys(finding.topic for finding in findings))
    assert topics == sorted(topics, key=["settings", "keys", "prompts", "plugins", "files", "folders"].index)
    for topic in topics:
        levels = [finding.level.value for finding in findings if finding.topic is topic]
        assert levels == sorted(levels, key=["error", "warning", "note"].index)
