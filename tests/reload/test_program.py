"""``vcp serve`` as a process: it watches its home, its log follows the settings, kill -9 in a reload harms nothing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.program import LONGEST, Program, started, vcp
from tests.reload.files import WAIT_SECONDS, manifest_of, save, tree
from tests.server import ECHO, write_plugin


def wait_for(reached: Callable[[], bool], program: Program) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not reached():
        assert time.monotonic() < end, program.logged
        time.sleep(0.01)


def lines(program: Program, words: str) -> list[str]:
    return [line for line in program.logged.splitlines() if words in line]


def test_a_server_follows_its_files_and_its_log_follows_the_settings(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_plugin(home, "Echo", ECHO)
    config = home / "config.env"
    save(config, "Key=k", "DEFAULT_TIMEZONE=UTC")
    with started("serve", "--home", str(home), "--port", "0", cwd=tmp_path, environ={"ShowVCP": "true"}) as program:
        save(config, "Key=other", "DEFAULT_TIMEZONE=Asia/Tokyo", "DebugMode=true", "ShowVCP=false", "PORT=1")
        save(
            home / "Plugin" / "Echo" / "plugin-manifest.json", manifest_of("Echo", description="new " * 100)
        )  # shrunk files wait longer
        wait_for(lambda: bool(lines(program, "changed Echo")), program)
        wait_for(lambda: bool(lines(program, "DebugMode")), program)
        (reload,) = lines(program, "config.env: ")
        assert "+09:00 INFO" in reload
        assert "ShowVCP" not in reload
        assert len(lines(program, "Key: changed; takes effect after a restart")) == 1  # the port was given by option
        assert "other" not in program.logged
        headers = {"Authorization": "Bearer k"}
        with httpx.Client(headers=headers, timeout=LONGEST, trust_env=False) as web:
            assert web.get(f"{program.base_url}/models").status_code == 200
        config.write_text('DEFAULT_TIMEZONE="Asia' + " " * 200, encoding="utf-8")
        wait_for(lambda: bool(lines(program, "config.env:1: DEFAULT_TIMEZONE: ")), program)
        assert program.stop() == 0
        assert "Traceback" not in program.logged


def ours(home: Path) -> set[str]:
    """The files of a home that a person made; others belong to parts that store something there."""
    made = ("config.env", "Plugin/P", "Plugin/Echo")
    return {path for path in tree(home) if path.removeprefix(f"{home}/").startswith(made)}


def test_kill_in_the_middle_of_reloads_leaves_nothing_behind_and_the_next_start_finds_all(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for number in range(30):
        save(home / "Plugin" / f"P{number}" / "plugin-manifest.json", manifest_of(f"P{number}"))
    write_plugin(home, "Echo", ECHO)
    save(home / "config.env", "Key=k")
    ended = threading.Event()

    def edit() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            path = home / "Plugin" / f"P{number % 30}" / "plugin-manifest.json"
            save(path, manifest_of(path.parent.name, version=str(number)))
            if number % 30 == 0:
                ended.wait(0.45)  # time to settle, so that there are reloads between the storms

    with started("serve", "--home", str(home), "--port", "0", cwd=tmp_path) as program:
        before = ours(home)
        editor = threading.Thread(target=edit)
        editor.start()
        try:
            wait_for(lambda: bool(lines(program, "reloaded: plugins")), program)
            program.process.send_signal(signal.SIGKILL)
            program.process.wait()
        finally:
            ended.set()
            editor.join()
        assert ours(home) == before
    told = vcp("tool", "Echo", "text=alive", "--home", str(home), cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "alive" in told.stdout
