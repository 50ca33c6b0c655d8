"""The log on disk of a server that was started as a person starts it (spec 1.13)."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import httpx

from tests.program import started

RECORD = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+08:00\] \[(?:DEBUG|INFO|WARNING|ERROR)\] [\w.]+: .*")


def test_everything_that_is_logged_is_on_disk_too_and_no_key_among_it(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("MaxVCPLoopStream=abc\n", encoding="utf-8")
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        key, url = program.key, program.base_url
        headers = {"Authorization": f"Bearer {key}"}
        body = {"model": "m", "messages": [{"role": "user", "content": "What is 12*7?"}]}
        httpx.post(f"{url}/chat/completions", json=body, headers=headers, timeout=30, trust_env=False)
        httpx.post(f"{url}/chat/completions", timeout=30, trust_env=False)
        httpx.post(url.removesuffix("/v1") + "/pw=Secret/images/x", timeout=30, trust_env=False)
        assert program.stop(signal.SIGTERM) == 0
        on_screen = program.logged
    (path,) = (tmp_path / "DebugLog").iterdir()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert all(RECORD.fullmatch(line) for line in lines)
    text = "\n".join(lines)
    assert "config.env:1: MaxVCPLoopStream" in text
    assert text.count("POST /v1/chat/completions from 127.0.0.1") == 1  # a turn has a line of its own
    assert "POST /pw=***/images/x" in text
    assert re.search(r"turn .* of m from 127.0.0.1: success", text)
    assert key not in text and "Secret" not in text
    assert len(on_screen.splitlines()) == len(lines)


def test_a_killed_server_leaves_whole_lines(tmp_path: Path) -> None:
    folder = tmp_path / "DebugLog"
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        for _ in range(20):
            httpx.post(f"{program.base_url}/interrupt", timeout=30, trust_env=False)
        for _ in range(2000):  # looking again is bounded and decides nothing
            if folder.exists() and any(path.stat().st_size for path in folder.iterdir()):
                break
            time.sleep(0.005)
        program.stop(signal.SIGKILL)
    (path,) = folder.iterdir()
    assert all(RECORD.fullmatch(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert path.read_text(encoding="utf-8").endswith("\n")


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("ServerLog=false", encoding="utf-8")
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        httpx.post(f"{program.base_url}/interrupt", timeout=30, trust_env=False)
        assert program.stop() == 0
        assert "POST" in program.logged
    assert not (tmp_path / "DebugLog").exists()


def test_a_place_that_cannot_be_written_does_not_stop_the_server(tmp_path: Path) -> None:
    (tmp_path / "DebugLog").write_text("in the way", encoding="utf-8")
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        url = program.base_url.removesuffix("/v1")
        for _ in range(3):
            assert httpx.post(f"{url}/v1/interrupt", timeout=30, trust_env=False).status_code == 401
        assert program.stop() == 0
        assert program.logged.count("cannot be written") == 1
