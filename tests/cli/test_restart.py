"""``POST /server/restart`` with a real program: in its place or with exit code 1, after what runs (D87, P43, P83)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from app.cli.start_again import VARIABLE, HandedOn, handed_on
from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.home.lock import OWNER_FILE, HomeTakenError, own_home
from tests.cli.commands import PLUGIN_SLEEPER, halved, refused
from tests.plugins.watching import appears, lives
from tests.program import Program, read_until, started
from tests.server import call_text, read_stream, run, write_plugin
from tests.waiting import until

LOGIN = ("admin", "secret-password")
ADMIN = ("AdminUsername=admin", "AdminPassword=secret-password", "Key=k")


def configured(home: Path, *lines: str) -> None:
    (home / "config.env").write_text("\n".join([*ADMIN, *lines]) + "\n", encoding="utf-8")


def admin(program: Program) -> httpx.Client:
    base = program.base_url.removesuffix("/v1")
    return httpx.Client(base_url=base, auth=LOGIN, timeout=60, trust_env=False)


def is_again(program: Program) -> str:
    """Wait for the second banner and return it; the process is the same one."""
    assert program.process.stdout is not None
    banner = read_until(program.process.stdout, "curl ")
    assert program.process.poll() is None
    return banner


def test_the_server_starts_anew_in_its_process_at_its_address_or_ends_with_code_1(tmp_path: Path) -> None:
    """D87: whoever waits for the process goes on waiting; ``--port 0`` keeps the port; the lock was never free.

    With ``RestartMode=exit`` a supervisor does it. With a configuration that it would not start with it goes on.
    """
    configured(tmp_path)
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        with admin(program) as web:
            (tmp_path / "config.env").write_text("\n".join([*ADMIN[:2], "HOST=0.0.0.0", "Key=please-change-me"]))
            answer = web.post("/admin_api/server/restart")
            assert answer.status_code >= 400
            assert "HOST" in answer.json()["error"]
            assert web.get("/readyz").text == "ready"
        configured(tmp_path)
        with admin(program) as web:
            answer = web.post("/admin_api/server/restart")
            assert (answer.status_code, answer.json()["already"]) == (200, False)
        banner = is_again(program)
        assert program.base_url in banner
        with admin(program) as web:
            listed = web.get("/admin_api/system-monitor/pm2/processes").json()["processes"]
            assert listed[0]["pid"] == program.process.pid
            assert [one["name"] for one in listed if one["status"] == "zombie"] == []
            assert web.get("/readyz").text == "ready"
        owner = json.loads((tmp_path / OWNER_FILE).read_text(encoding="utf-8"))
        assert (owner["pid"], f"{owner['address']}/v1") == (program.process.pid, program.base_url)
        with pytest.raises(HomeTakenError), own_home(tmp_path, "test"):
            pass
        assert len(list((tmp_path / "DebugLog").glob("ServerLog-*.txt"))) == 2
        environ = Path(f"/proc/{program.process.pid}/cmdline")
        if environ.exists():
            assert environ.read_bytes().endswith(b"serve\0--port\0000\0")
        with admin(program) as web:  # what a check finds reaches the panel of the program
            assert "can be guessed" in web.get("/AdminPanel/attention?list=1", headers={"accept-language": "en"}).text
        comes_back_without_a_terminal(program)
        configured(tmp_path, "RestartMode=exit")
        with admin(program) as web:
            assert "message" in web.post("/admin_api/server/restart").json()
        assert program.process.wait(60) == 1
        assert "Traceback" not in program.logged
    assert not (tmp_path / OWNER_FILE).exists()
    with own_home(tmp_path, "test"):  # the lock is free
        pass


def comes_back_without_a_terminal(program: Program) -> None:
    """Nobody reads what the program prints any more; it starts anew all the same."""
    with admin(program) as web:
        before = web.get("/AdminPanel/restart/state").json()["began"]
        assert program.process.stdout is not None
        program.process.stdout.close()
        program.process.stdout = None
        assert web.post("/admin_api/server/restart").status_code == 200

    def is_back() -> bool:
        with admin(program) as web, contextlib.suppress(httpx.TransportError):
            state = web.get("/AdminPanel/restart/state").json()
            return bool(state["ready"]) and state["began"] != before
        return False

    run(until(is_back))


def test_what_runs_is_waited_for_once_and_children_are_gone(tmp_path: Path) -> None:
    """A chat that runs ends as usual; a second click does nothing; a tool that hangs ends with the time (P43)."""

    async def test() -> None:
        folder = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)
        slow = halved(say("the first half and the second half").streamed())
        async with ScriptedUpstream([slow, say(call_text("Sleeper"))]) as upstream:
            configured(tmp_path, f"API_URL={upstream.base_url}", "ShutdownSeconds=1", "PluginStopSeconds=1")
            with started("serve", "--port", "0", cwd=tmp_path) as program:
                base = program.base_url.removesuffix("/v1")
                async with httpx.AsyncClient(base_url=base, timeout=60, trust_env=False) as web:
                    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
                    key = {"Authorization": "Bearer k"}
                    async with (
                        web.stream("POST", "/v1/chat/completions", json=body, headers=key) as first,
                        httpx.AsyncClient(base_url=base, timeout=60, trust_env=False, auth=LOGIN) as panel,
                    ):
                        await upstream.held()
                        asks = [panel.post("/admin_api/server/restart") for _ in range(2)]
                        answers = await asyncio.gather(*asks, return_exceptions=True)
                        told = [one.json()["already"] for one in answers if isinstance(one, httpx.Response)]
                        assert told.count(False) == 1
                        upstream.release()
                        await first.aread()
                    read = read_stream(first)
                    assert (read.text, read.finishes, read.done) == ("the first half and the second half", ["stop"], 1)
                    await asyncio.to_thread(is_again, program)
                    async with web.stream("POST", "/v1/chat/completions", json=body, headers=key) as second:
                        await appears(folder / "pid")
                        async with httpx.AsyncClient(base_url=base, timeout=60, trust_env=False, auth=LOGIN) as panel:
                            assert (await panel.post("/admin_api/server/restart")).status_code == 200
                        await second.aread()
                    assert read_stream(second).done == 1
                    await asyncio.to_thread(is_again, program)
                assert not lives(int((folder / "pid").read_text()))
                assert await asyncio.to_thread(program.stop) == 0
                assert "Traceback" not in program.logged

    run(test())


def test_a_signal_during_the_restart_ends_the_server_for_good(tmp_path: Path) -> None:
    async def test() -> None:
        async with ScriptedUpstream([halved(say("one two three").streamed())]) as upstream:
            configured(tmp_path, f"API_URL={upstream.base_url}")
            with started("serve", "--port", "0", cwd=tmp_path) as program:
                base = program.base_url.removesuffix("/v1")
                body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
                async with httpx.AsyncClient(base_url=base, timeout=60, trust_env=False) as web:
                    headers = {"Authorization": "Bearer k"}
                    async with web.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
                        await upstream.held()
                        assert (await web.post("/admin_api/server/restart", auth=LOGIN)).status_code == 200
                        program.process.send_signal(signal.SIGTERM)
                        upstream.release()
                        await answer.aread()
                    assert read_stream(answer).text == "one two three"
                assert await asyncio.to_thread(program.ended) == 0

    run(test())


# ---------------------------------------------------------------- What is handed on


def test_only_this_very_process_takes_over_what_was_handed_on() -> None:
    environ = {VARIABLE: "12:7:4711", "PATH": "x"}
    assert handed_on(environ, 12) == HandedOn(7, 4711)
    assert environ == {"PATH": "x"}
    assert handed_on({VARIABLE: "12:7:4711"}, 13) == HandedOn()
    assert handed_on({VARIABLE: "12:-1:0"}, 12) == HandedOn(None, 0)
    for hostile in ("", "x", "12", "12:7", "12:7:4711:1", "12:a:1", "12:7:99999999999999999999", "\x00"):
        assert handed_on({VARIABLE: hostile}, 12).port == 0


def test_a_descriptor_that_is_not_the_lock_is_left_alone(tmp_path: Path) -> None:
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        for descriptor in (other, 999_999, -5, 10**30):
            with own_home(tmp_path, "test", descriptor) as ownership:
                assert ownership.handed_on() != other
        os.fstat(other)
    finally:
        os.close(other)


def test_a_lock_that_was_handed_on_is_taken_over_and_given_back_at_the_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with own_home(tmp_path, "first") as first:
        descriptor = first.handed_on()
        assert descriptor is not None
        assert os.get_inheritable(descriptor)
        kept = os.dup(descriptor)  # as after exec: the lock lives on in a descriptor without an owner
    with own_home(tmp_path, "second", kept) as second:
        assert second.handed_on() == kept
        os.set_inheritable(kept, False)
        assert "in use" in refused(capsys, "serve", "--home", str(tmp_path), "--port", "0")
    with own_home(tmp_path, "third"):
        pass
