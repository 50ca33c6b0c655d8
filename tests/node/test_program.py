"""``vcp node`` as a process: it connects, serves, says what it lacks, and ends as it is asked to."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.home.lock import own_home
from tests.cli.commands import PLUGIN_SLEEPER, refused
from tests.node.bench import SECONDS, MainEnd, main_end, until
from tests.plugins.watching import appears, vanishes
from tests.program import VCP, environment
from tests.server import ECHO, run, write_plugin

KEY = "s3cret-key"

ENVIRONMENT = """
import json, os
print(json.dumps({"status": "success", "result": dict(os.environ)}))
"""


class Process:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log
        self.printed = ""

    @property
    def logged(self) -> str:
        return self._log.read_text(encoding="utf-8")

    async def prints(self, words: str) -> None:
        """Read what it prints until these words came."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            while words not in self.printed:
                line = await self.process.stdout.readline()
                assert line, f"it ended: {self.printed} {self.logged}"
                self.printed += line.decode()

    async def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            rest, _ = await self.process.communicate()
        self.printed += rest.decode()
        assert self.process.returncode is not None
        return self.process.returncode


@asynccontextmanager
async def node_process(home: Path, *words: str, environ: Mapping[str, str]) -> AsyncIterator[Process]:
    log = home.parent / f"{home.name}.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *VCP,
            "node",
            "--home",
            str(home),
            *words,
            env=environment(environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    try:
        yield Process(process, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def written_by(home: Path) -> str:
    """All that lies in a home, its log too."""
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in home.rglob("*") if path.is_file())


async def serves(main: MainEnd, name: str) -> None:
    link, registered = await main.introduced()
    assert registered["serverName"] == name
    assert (await link.call("1", "Echo", text="hi"))["result"] == {"original_plugin_output": "hi"}


def installed(home: Path) -> tuple[str, ...]:
    """A home with a tool."""
    write_plugin(home, "Echo", ECHO)
    settings = ("VCP_Key=not-this-one", "RunStaticPlugins=false", "ShutdownSeconds=0.2", "DebugMode=true", "")
    (home / "config.env").write_text("\n".join(settings))
    return ("--name", "shed", "--url")


def test_a_node_that_was_killed_serves_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    words = installed(home)

    async def test() -> None:
        async with main_end() as main:
            async with node_process(home, *words, main.url, environ={"VCP_KEY": KEY}) as killed:
                await serves(main, "shed")
                killed.process.kill()
                await killed.process.wait()
            async with node_process(home, *words, main.url, environ={"VCP_KEY": KEY}):
                await serves(main, "shed")

    run(test())


def test_sigterm_ends_a_node_with_its_calls_and_code_0_and_the_key_is_nowhere(tmp_path: Path) -> None:
    """P83, D42."""
    home = tmp_path / "home"
    words = installed(home)
    write_plugin(home, "Environment", ENVIRONMENT)
    sleeper = write_plugin(home, "Sleeper", PLUGIN_SLEEPER)

    async def test() -> None:
        async with main_end() as main:
            url = main.url.replace("ws:", "http:")
            async with node_process(home, *words, url, "--label", "a,b", environ={"VCP_KEY": KEY}) as node:
                link, registered = await main.introduced()
                assert link.path.endswith(f"/VCP_Key={KEY}")
                assert registered["labels"] == ["a", "b"]
                seen = (await link.call("2", "Environment"))["result"]
                assert KEY not in json.dumps(seen), "plugins do not get the key of the environment"
                await node.prints("connected")
                await link.execute("3", "Sleeper")
                await appears(sleeper / "pid")
                assert await node.stop(signal.SIGTERM) == 0
                await vanishes(int((sleeper / "pid").read_text()))
                assert "connected" in node.logged and "Traceback" not in node.logged
                assert KEY not in node.logged + node.printed + written_by(home)

    run(test())


def test_a_wrong_key_is_told_and_ctrl_c_ends_the_node(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "key").write_text(f"{KEY}\n")
        async with main_end() as main:
            main.status = 401
            words = ("--url", main.url, "--name", "shed", "--key-file", str(tmp_path / "key"))
            async with node_process(tmp_path / "home", *words, environ={"RunStaticPlugins": "false"}) as node:
                await node.prints("the key is wrong (401)")
                assert "密钥" in node.printed
                await until(lambda: "next try in" in node.logged)
                assert await node.stop(signal.SIGINT) == 0
                assert KEY not in node.printed + node.logged

    run(test())


def test_what_is_missing_or_wrong_is_told_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VCP_KEY", raising=False)
    (tmp_path / "empty").write_text("")
    home = ("node", "--home", tmp_path)
    assert "--url" in refused(capsys, *home)
    assert "VCP_KEY" in refused(capsys, *home, "--url", "ws://h")
    assert "--key-file" in refused(capsys, *home, "--url", "ws://h", "--key-file", tmp_path / "none")
    assert "--key-file" in refused(capsys, *home, "--url", "ws://h", "--key-file", tmp_path / "empty")
    monkeypatch.setenv("VCP_KEY", KEY)
    assert "--name" in refused(capsys, *home, "--url", "ws://h", "--name", "a#b")
    assert "--files" in refused(capsys, *home, "--url", "ws://h", "--files", tmp_path / "none")
    assert "--ca" in refused(capsys, *home, "--url", "wss://h", "--ca", tmp_path / "empty")
    assert "--ca" in refused(capsys, *home, "--url", "wss://h", "--ca", tmp_path / "none")
    assert "--home" in refused(capsys, "node", "--home", tmp_path / "none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def test_a_home_that_a_server_owns_is_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D88: one process owns a home."""
    monkeypatch.setenv("VCP_KEY", KEY)
    with own_home(tmp_path, "serve"):
        assert "in use" in refused(capsys, "node", "--home", tmp_path, "--url", "ws://127.0.0.1:9")
