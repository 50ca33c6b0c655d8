"""``vcp serve`` as a person uses it: real processes, real signals, real exit codes."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.config.home_folders import HOME_FOLDERS
from app.demo.script import Hold, no_answer, say
from app.demo.scripted import ScriptedUpstream
from tests.cli.commands import PLUGIN_SLEEPER, halved, refused
from tests.plugins.watching import appears, lives
from tests.program import Program, started
from tests.server import call_text, read_stream, run, write_plugin

QUESTION = {"model": "any", "messages": [{"role": "user", "content": "What is 12*7?"}]}
NOWHERE = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
"""Proxies that do not answer; nothing that stays on this machine may ask them."""


def client(program: Program, key: str | None = None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key or program.key}"}
    return httpx.Client(base_url=program.base_url, headers=headers, timeout=60, trust_env=False)


# ---------------------------------------------------------------- The first start and the second


@dataclass(frozen=True, slots=True)
class Start:
    """What one start of a server left behind."""

    home: Path
    banner: str
    log: str
    key: str
    answer: dict[str, Any]
    exit_code: int
    panel: int
    """The status of what belongs to administrators for the password of the banner."""

    @property
    def login(self) -> tuple[str, str]:
        """Name and password as the banner tells them."""
        name, password = next(line for line in self.banner.splitlines() if "login /" in line).split()[-2:]
        return name, password


def start_in(home: Path) -> Start:
    with started("serve", "--port", "0", cwd=home, environ=NOWHERE) as program:
        key = program.key
        with client(program) as web:
            answer = web.post("/chat/completions", json=QUESTION).json()
            told = re.search(r"login / \S+ +(\S+)  (\S+)", program.banner)
            assert told is not None
            address = program.base_url.removesuffix("/v1") + "/admin_api/config/main"
            panel = httpx.get(address, auth=(told[1], told[2]), trust_env=False).status_code
        code = program.stop()
        return Start(home, program.banner, program.logged, key, answer, code, panel)


@pytest.fixture(scope="module")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.fixture(scope="module")
def first(empty_home: Path) -> Start:
    return start_in(empty_home)


@pytest.fixture(scope="module")
def second(first: Start) -> Start:
    return start_in(first.home)


def test_a_start_in_an_empty_folder_makes_the_folders_of_an_installation(first: Start) -> None:
    assert sorted(path.name for path in first.home.iterdir()) == sorted([".vcp", "DebugLog", *HOME_FOLDERS])


def test_the_generated_key_is_kept_for_its_owner_alone(first: Start) -> None:
    path = first.home / ".vcp" / "server.key"
    assert path.read_text(encoding="utf-8").strip() == first.key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_key_is_told_on_the_terminal_and_never_in_the_log(first: Start) -> None:
    told = [line for line in first.banner.splitlines() if first.key in line]
    assert [line.split()[0] for line in told] == ["key", "curl"]
    assert first.key not in first.log


def test_a_start_tells_everything_that_a_newcomer_needs_once_and_in_order(first: Start) -> None:
    begins = [
        line.split("/")[0].strip()
        for line in first.banner.splitlines()
        if re.match(r"  (base|key|panel|login|Try|curl)", line)
    ]
    assert [begin.split()[0] for begin in begins] == ["base", "key", "panel", "login", "Try", "curl"]
    assert "Ctrl-C" in first.banner
    assert "built-in demo model" in first.banner
    assert "演示模型" in first.banner


def test_d86_on_loopback_an_admin_password_is_generated_and_told_beside_the_key(first: Start, second: Start) -> None:
    name, password = first.login
    path = first.home / ".vcp" / "admin.password"
    assert (name, password) == ("admin", path.read_text(encoding="utf-8").strip())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(password) >= 40
    assert first.panel == 200
    assert password not in first.log + second.log
    assert second.login == first.login
    assert second.panel == 200


def test_the_first_chat_calls_a_tool_though_a_proxy_is_set(first: Start) -> None:
    (choice,) = first.answer["choices"]
    assert "<<<[TOOL_REQUEST]>>>" in choice["message"]["content"]
    assert "84" in choice["message"]["content"].partition("<<<[END_TOOL_REQUEST]>>>")[2]
    assert choice["finish_reason"] == "stop"


def test_a_quiet_server_ends_with_exit_code_0(first: Start) -> None:
    assert first.exit_code == 0
    assert "Traceback" not in first.log


def test_the_second_start_uses_the_key_of_the_first(first: Start, second: Start) -> None:
    assert second.key == first.key
    assert second.exit_code == 0


# ---------------------------------------------------------------- With a config.env


def test_a_configured_server_has_its_own_model_and_key_and_names_bad_lines_of_the_file(tmp_path: Path) -> None:
    home = tmp_path / "my home 我的 家"
    home.mkdir()
    config = home / "config.env"
    config.write_text(
        "API_URL=http://127.0.0.1:9\nKey=own-key\nMaxVCPLoopStream=many\nDetector1=alone\n", encoding="utf-8"
    )
    with started("serve", "--home", str(home), "--port", "0", cwd=tmp_path) as program:
        with client(program, "own-key") as web:
            assert web.get("/models", headers={"Authorization": "Bearer wrong"}).status_code == 401
            block = call_text("SciCalculator", expression="6*7")
            answer = web.post("/human/tool", content=block, headers={"Content-Type": "text/plain"})
            assert (answer.status_code, "42" in answer.text) == (200, True)
        assert program.stop() == 0
        log = program.logged
    assert sorted(path.name for path in tmp_path.iterdir()) == [home.name]
    assert "demo model" not in program.banner
    assert "演示" not in program.banner
    assert "own-key" not in program.banner + log
    assert program.lines[-1] == f'curl {program.base_url}/models -H "Authorization: Bearer $KEY"'
    assert not (home / ".vcp" / "server.key").exists()
    assert f"{config}:3: MaxVCPLoopStream: " in log
    assert f"{config}:4: Detector1: " in log


def test_an_api_url_that_is_none_is_told_apart_from_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("API_URL=not an address\n", encoding="utf-8")
    start = start_in(tmp_path)
    assert "The API_URL cannot be used" in start.banner
    assert "No API_URL is configured" not in start.banner
    assert "API_URL" in start.log


def test_a_generated_key_is_not_shown_where_other_machines_get_in_and_the_curl_line_still_works(tmp_path: Path) -> None:
    plain = {"PYTHONIOENCODING": "ascii"}  # a terminal without Chinese letters must not end the program
    with started("serve", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path, environ=plain) as program:
        key = (tmp_path / ".vcp" / "server.key").read_text(encoding="utf-8").strip()
        shown = program.lines[-1]
        panel = program.base_url.removesuffix("/v1").replace("0.0.0.0", "127.0.0.1") + "/admin_api/config/main"
        assert httpx.get(panel, trust_env=False).status_code == 503  # D86: refused where other machines get in
        assert "login /" not in program.banner
        assert not (tmp_path / ".vcp" / "admin.password").exists()
        assert program.stop() == 0
        assert key not in program.banner + program.logged
    assert str(tmp_path / ".vcp" / "server.key") in program.banner
    assert f"$(cat {shlex.quote(str(tmp_path / '.vcp' / 'server.key'))})" in shown


# ---------------------------------------------------------------- What cannot be begun


@pytest.mark.parametrize("name", ["Key", "Image_Key"])
def test_a_placeholder_key_is_refused_where_other_machines_get_in(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    given = {"Key": "please-change-me", "Image_Key": "please-change-me-too"}
    (tmp_path / "config.env").write_text(f"HOST=0.0.0.0\n{name}={given[name]}\n", encoding="utf-8")
    told = refused(capsys, "serve", "--home", str(tmp_path), "--port", "0")
    assert told.startswith(f"vcp: {name} is still the placeholder of config.env.example while HOST=0.0.0.0")
    assert given[name] not in told


def test_a_port_that_is_taken_is_named_with_the_way_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = refused(capsys, "serve", "--home", str(tmp_path), "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}" in told
    assert "--port" in told


@pytest.mark.parametrize("port", ["x", "-1", "65536", "６００５", ""])
def test_a_port_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, port: str) -> None:
    told = refused(capsys, "serve", "--home", str(tmp_path), f"--port={port}")
    assert f"'{port}' is not a port, a number from 0 to 65535" in told


def test_a_home_that_does_not_exist_is_refused_and_not_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = tmp_path / "gone"
    assert f"--home {home} is not a folder" in refused(capsys, "serve", "--home", str(home))
    assert not home.exists()


def test_a_config_that_cannot_be_read_ends_the_start(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.env").mkdir()
    told = refused(capsys, "serve", "--home", str(tmp_path))
    assert told.startswith("vcp: ")
    assert str(tmp_path / "config.env") in told


@pytest.mark.parametrize("words", [(), ("dance",), ("serve", "--unknown"), ("tool",)])
def test_a_command_line_without_sense_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert refused(capsys, *words).startswith("usage: vcp")


# ---------------------------------------------------------------- The end of a server


@asynccontextmanager
async def answering(program: Program, key: str, **body: Any) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.Response]]:
    """A streamed answer whose head has come."""
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx.AsyncClient(base_url=program.base_url, headers=headers, timeout=60, trust_env=False) as web,
        web.stream("POST", "/chat/completions", json={**QUESTION, "stream": True, **body}) as response,
    ):
        assert response.status_code == 200
        yield web, response


async def refuses(address: str) -> None:
    """Wait until nobody listens at the address any more."""
    url = httpx.URL(address)
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection(url.host, url.port)
            except ConnectionRefusedError:
                return
            except ConnectionResetError:  # it was still in the queue when the server closed it
                continue
            writer.close()
            await asyncio.sleep(0.01)


def configured(home: Path, upstream: str, *lines: str) -> None:
    text = "\n".join([f"API_URL={upstream}", "Key=k", *lines]) + "\n"
    (home / "config.env").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_an_answer_that_runs_may_end_before_the_server_does(tmp_path: Path, number: signal.Signals) -> None:
    """P83."""

    async def test() -> None:
        answer = say("the first half and the second half").streamed()
        async with ScriptedUpstream([halved(answer)]) as upstream:
            configured(tmp_path, upstream.base_url)
            with started("serve", "--port", "0", cwd=tmp_path) as program:
                async with answering(program, "k") as (_, response):
                    await upstream.held()
                    program.process.send_signal(number)
                    await refuses(program.base_url)
                    upstream.release()
                    await response.aread()
                read = read_stream(response)
                assert (read.text, read.finishes, read.done) == ("the first half and the second half", ["stop"], 1)
                assert await asyncio.to_thread(program.ended) == 0
                assert "Traceback" not in program.logged

    run(test())


def test_a_tool_that_runs_too_long_ends_with_the_server(tmp_path: Path) -> None:
    """P43: the stream has a proper end, the exit code is 0, and no process is left."""

    async def test() -> None:
        folder = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)
        async with ScriptedUpstream([say(call_text("Sleeper"))]) as upstream:
            configured(tmp_path, upstream.base_url, "ShutdownSeconds=1", "PluginStopSeconds=1")
            with started("serve", "--port", "0", cwd=tmp_path) as program:
                async with answering(program, "k") as (_, response):
                    await appears(folder / "pid")
                    program.process.send_signal(signal.SIGTERM)
                    await response.aread()
                read = read_stream(response)
                assert (len(read.finishes), read.done) == (1, 1)
                assert await asyncio.to_thread(program.ended) == 0
                assert not lives(int((folder / "pid").read_text()))
                assert "Traceback" not in program.logged

    run(test())


def test_a_request_that_a_stop_cuts_off_is_answered_in_the_shape_of_its_route(tmp_path: Path) -> None:
    async def test() -> None:
        folder = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)
        async with ScriptedUpstream(lambda _: no_answer(Hold("never"))) as upstream:
            configured(tmp_path, upstream.base_url, "ShutdownSeconds=0.1", "PluginStopSeconds=0.5")
            with started("serve", "--port", "0", cwd=tmp_path) as program:
                url, headers = program.base_url, {"Authorization": "Bearer k"}
                async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as web:
                    plain = {"Content-Type": "text/plain"}
                    tool = asyncio.create_task(
                        web.post("/human/tool", content=call_text("Sleeper").encode(), headers=plain)
                    )
                    vectors = asyncio.create_task(web.post("/embeddings", json={"model": "m", "input": "x"}))
                    await appears(folder / "pid")
                    await until_asked(upstream)
                    program.process.send_signal(signal.SIGTERM)
                    answers = [await tool, await vectors]
                assert [answer.status_code for answer in answers] == [503, 503]
                assert "shutting down" in answers[0].json()["error"]
                assert answers[1].json()["error"]["code"] == "server_stopping"
                assert await asyncio.to_thread(program.ended) == 0
                assert not lives(int((folder / "pid").read_text()))
                assert "Traceback" not in program.logged

    run(test())


async def until_asked(upstream: ScriptedUpstream) -> None:
    async with asyncio.timeout(30):
        while not upstream.requests:
            await asyncio.sleep(0.01)


def test_a_second_signal_does_not_wait_for_work_in_the_background_either(tmp_path: Path) -> None:
    async def test() -> None:
        folder = write_plugin(tmp_path, "Sleeper", PLUGIN_SLEEPER)
        async with ScriptedUpstream([say(call_text("Sleeper", archery="no_reply"))]) as upstream:
            configured(tmp_path, upstream.base_url, "ShutdownSeconds=600", "PluginStopSeconds=1")
            with started("serve", "--port", "0", cwd=tmp_path) as program:
                async with answering(program, "k") as (_, response):
                    await response.aread()
                await appears(folder / "pid")
                program.process.send_signal(signal.SIGTERM)
                await refuses(program.base_url)
                program.process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(program.ended) == 0
                assert not lives(int((folder / "pid").read_text()))
                assert "Traceback" not in program.logged

    run(test())


def test_a_second_signal_does_not_wait_for_open_answers(tmp_path: Path) -> None:
    async def test() -> None:
        with started("serve", "--port", "0", cwd=tmp_path, environ={"ShutdownSeconds": "600"}) as program:
            key = program.key
            async with answering(program, key, messages=[{"role": "user", "content": "slow"}]) as (_, response):
                pieces = response.aiter_text()
                await anext(pieces)
                program.process.send_signal(signal.SIGINT)
                await refuses(program.base_url)
                program.process.send_signal(signal.SIGINT)
                rest = "".join([piece async for piece in pieces])
            assert rest.rstrip().endswith("data: [DONE]")
            assert await asyncio.to_thread(program.ended) == 0
            assert "Traceback" not in program.logged

    run(test())
