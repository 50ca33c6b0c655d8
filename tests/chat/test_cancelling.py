"""Interrupt, hang-up and shutdown: what the client reads, and that nothing is left (1.7, D27, D28, B21, B22)."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.chat import turn as turn_module
from app.chat.running import RunningTurn, StopReason
from app.chat.stream_rendering import StreamRenderer
from app.chat.turn import Turn, TurnRequest
from app.demo.script import Hold, Received, Reply, Send, say
from app.demo.scripted import ScriptedUpstream
from app.errors import ShutdownError
from app.extend import (
    Body,
    CallFinished,
    Event,
    Outcome,
    PromptContext,
    RoundStarted,
    Stage,
    TurnFinished,
    TurnStarted,
)
from tests.chat.gated_tools import GatedTools
from tests.server import HEADERS, Running, call_text, chat_body, read_stream, run, running, write_plugin

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
INTERRUPTED = "请求已被用户中止"

HANGS_WITH_A_CHILD = """
import json, os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN) if "stubborn" in sys.argv else None
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
arguments = json.loads(sys.stdin.read())
pathlib.Path(arguments["pids"] + ".new").write_text(f"{os.getpid()} {child.pid}")
os.rename(arguments["pids"] + ".new", arguments["pids"])
time.sleep(600)
"""


def held(text: str, after: int) -> Callable[[Received], Reply]:
    """An answer that stops in the middle until it is released."""

    def script(request: Received) -> Reply:
        reply = say(text).reply(request)
        data = b"".join(step.data for step in reply.steps if isinstance(step, Send))
        steps = (Send(data[:after]), Hold(), Send(data[after:])) if after else (Hold(), Send(data))
        return replace(reply, steps=steps)

    return script


async def interrupt(server: Running, **ids: Any) -> httpx.Response:
    return await server.client.post("/v1/interrupt", json=ids)


async def ended(server: Running, kind: type[Event]) -> Event:
    """The first event of this kind, waited for."""
    while not (found := [event for event in server.events if isinstance(event, kind)]):
        await asyncio.sleep(0.002)
    return found[0]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@MODES
@pytest.mark.parametrize("beats", [False, True])
def test_interrupted_before_anything_was_sent(tmp_path: Path, stream: bool, beats: bool) -> None:
    async def main() -> None:
        config = ["HeartbeatSeconds=0.01" if beats else "HeartbeatSeconds=60"]
        async with (
            ScriptedUpstream([held("never", 0)]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            asking = asyncio.create_task(server.chat("x", stream=stream, requestId="r1"))
            await up.held()
            answer = await interrupt(server, requestId="r1")
            assert (answer.status_code, answer.json()) == (
                200,
                {"status": "success", "message": "Interrupt signal sent for request r1."},
            )
            response = await asking
            assert response.status_code == 200
            if stream:
                got = read_stream(response)
                assert (got.text, got.finishes, got.roles, got.done) == (INTERRUPTED, ["stop"], ["assistant"], 1)
                assert all(one["id"].startswith("chatcmpl-interrupt-") for one in got.chunks)
            else:
                message = {"role": "assistant", "content": INTERRUPTED}
                assert response.json() == {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
            await up.gone()
            end = await ended(server, TurnFinished)
            assert isinstance(end, TurnFinished)
            assert (end.outcome, end.error) == (Outcome.CANCELLED, "interrupt")
            assert (await interrupt(server, requestId="r1")).status_code == 404

    run(main())


def test_interrupted_while_the_upstream_sends(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([held("some text and more", 700)]) as up, running(tmp_path, up.base_url) as server:
            async with server.client.stream(
                "POST", "/v1/chat/completions", json=chat_body("x", stream=True, messageId="m1")
            ) as response:
                lines = response.aiter_lines()
                seen = [await anext(lines)]
                await up.held()
                assert (await interrupt(server, messageId="m1")).status_code == 200
                seen += [line async for line in lines]
            got = read_stream(httpx.Response(200, text="\n".join(seen)))
            assert "some text and more".startswith(got.text)
            assert got.text
            assert (got.finishes, got.done) == (["stop"], 1)
            assert "error" not in got.raw
            await up.gone()

    run(main())


@MODES
@pytest.mark.parametrize("stubborn", [False, True])
def test_interrupted_while_a_tool_runs_its_whole_process_group_is_gone(
    tmp_path: Path, stream: bool, stubborn: bool
) -> None:
    async def main() -> None:
        command = "python main.py" + (" stubborn" if stubborn else "")
        write_plugin(
            tmp_path,
            "Hang",
            HANGS_WITH_A_CHILD,
            entryPoint={"type": "python", "command": command, "interpreter": "server"},
        )
        pids = tmp_path / "pids"
        text = "before " + call_text("Hang", pids=str(pids))
        config = ["PluginStopSeconds=0.1"]
        async with ScriptedUpstream([say(text)]) as up, running(tmp_path, up.base_url, config=config) as server:
            asking = asyncio.create_task(server.chat("x", stream=stream, requestId="r"))
            while not pids.exists():
                await asyncio.sleep(0.002)
            plugin, child = map(int, pids.read_text().split())
            assert alive(plugin)
            assert (await interrupt(server, requestId="r")).status_code == 200
            response = await asking
            if stream:
                got = read_stream(response)
                assert (got.text, got.finishes, got.done) == (text, ["stop"], 1)
            else:
                assert response.json()["choices"][0]["message"]["content"] == INTERRUPTED
            await ended(server, TurnFinished)
            assert not alive(plugin)
            while alive(child):  # killed, but no child of ours: nothing tells when the system is done with it
                await asyncio.sleep(0.002)
            (call,) = [event for event in server.events if isinstance(event, CallFinished)]
            assert (call.outcome, call.muted) == (Outcome.CANCELLED, True)
            assert len(up.requests) == 1

    run(main())


class Waits:
    """A preprocessor that waits."""

    name = "Waits"

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.begun = asyncio.Event()

    async def process(self, body: Body, context: PromptContext) -> Body:
        self.begun.set()
        await asyncio.Event().wait()
        return body


@pytest.mark.parametrize("stage", [Stage.BEFORE_VARIABLES, Stage.BEFORE_EACH_ROUND])
@MODES
def test_interrupted_while_the_prompt_is_prepared(tmp_path: Path, stream: bool, stage: Stage) -> None:
    async def main() -> None:
        waits = Waits(stage)
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url, preprocessors=[waits]) as server:
            asking = asyncio.create_task(server.chat("x", stream=stream, requestId=7))
            await waits.begun.wait()
            assert (await interrupt(server, requestId="7")).status_code == 200
            assert INTERRUPTED in (await asking).text
            assert up.requests == []

    run(main())


@MODES
def test_archery_goes_on_after_an_interrupt_and_is_muted(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        tools = GatedTools("Shot", "Slow")
        text = call_text("Shot", archery="no_reply") + call_text("Slow")
        async with ScriptedUpstream([say(text)]) as up, running(tmp_path, up.base_url, sources=[tools]) as server:
            asking = asyncio.create_task(server.chat("x", stream=stream, requestId="r"))
            await tools.begun["Shot"].wait()
            await tools.begun["Slow"].wait()
            await interrupt(server, requestId="r")
            await asking
            assert tools.log == ["Slow cancelled"]
            tools.gates["Shot"].set()
            await tools.ended["Shot"].wait()
            while len(calls := [event for event in server.events if isinstance(event, CallFinished)]) < 2:
                await asyncio.sleep(0)
            assert [(call.call.tool, call.outcome, call.muted) for call in calls] == [
                ("Slow", Outcome.CANCELLED, True),
                ("Shot", Outcome.SUCCESS, True),
            ]

    run(main())


def test_one_interrupt_ends_every_request_with_the_id_and_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream(held("text", 0)) as up, running(tmp_path, up.base_url) as server:
            same = [asyncio.create_task(server.chat("x", stream=s, requestId="same")) for s in (True, False)]
            other = asyncio.create_task(server.chat("x", requestId="other"))
            await up.held(count=3)
            await interrupt(server, requestId="same")
            assert all(INTERRUPTED in response.text for response in await asyncio.gather(*same))
            assert not other.done()
            up.release()
            assert (await other).json()["choices"][0]["message"]["content"] == "text"

    run(main())


@pytest.mark.parametrize(
    ("ids", "status"),
    [
        ({}, 400),
        ({"requestId": ""}, 400),
        ({"requestId": True}, 400),
        ({"requestId": {"a": 1}}, 400),
        ({"requestId": "zz"}, 404),
        ({"requestId": "", "messageId": "5"}, 200),
        ({"requestId": None, "messageId": 5}, 200),
        ({"requestId": "5", "messageId": "zz"}, 200),
    ],
)
def test_the_first_usable_id_counts(tmp_path: Path, ids: dict[str, Any], status: int) -> None:
    async def main() -> None:
        async with ScriptedUpstream(held("text", 0)) as up, running(tmp_path, up.base_url) as server:
            asking = asyncio.create_task(server.chat("x", requestId=5, messageId="second"))
            await up.held()
            answer = await interrupt(server, **ids)
            assert answer.status_code == status
            if status == 400:
                assert answer.json() == {"error": "requestId or messageId is required."}
            if status == 404:
                assert answer.json() == {
                    "status": "error",
                    "message": "Request zz not found or already completed.",
                }
            up.release()
            assert (INTERRUPTED in (await asking).text) is (status == 200)
            assert up.bodies[0]["requestId"] == 5
            assert up.bodies[0]["messageId"] == "second"

    run(main())


@asynccontextmanager
async def client_that_hangs_up(server: Running, body: Any) -> AsyncIterator[None]:
    """A raw connection with a chat request on it, closed at the end of the block."""
    host, port = server.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    data = json.dumps(body).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: "
    writer.write(head + HEADERS[b"Authorization"] + b"\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    try:
        yield
    finally:
        writer.close()
        await writer.wait_closed()


@MODES
def test_a_hang_up_cancels_the_upstream_request(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([held("text and more of it", 400 if stream else 60)]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            async with client_that_hangs_up(server, chat_body("x", stream=stream)):
                await up.held()
            await up.gone()
            end = await ended(server, TurnFinished)
            assert isinstance(end, TurnFinished)
            assert (end.outcome, end.error) == (Outcome.CANCELLED, "disconnect")
            assert len(server.services.running) == 0

    run(main())


@MODES
@pytest.mark.parametrize("cancel", [True, False])
def test_a_hang_up_ends_the_tools_or_leaves_them_as_the_setting_says(
    tmp_path: Path, stream: bool, cancel: bool
) -> None:
    async def main() -> None:
        tools = GatedTools("Slow")
        config = [f"CancelToolsOnDisconnect={str(cancel).lower()}"]
        async with (
            ScriptedUpstream([say(call_text("Slow"))]) as up,
            running(tmp_path, up.base_url, config=config, sources=[tools]) as server,
        ):
            async with client_that_hangs_up(server, chat_body("x", stream=stream)):
                await tools.begun["Slow"].wait()
                await up.served()
            await ended(server, TurnFinished)
            tools.gates["Slow"].set()
            await tools.ended["Slow"].wait()
            assert tools.log == ["Slow cancelled" if cancel else "Slow done"]
            call = await ended(server, CallFinished)
            assert isinstance(call, CallFinished)
            assert not call.muted
            assert len(up.requests) == 1

    run(main())


@MODES
def test_a_server_that_stops_ends_running_answers_readably(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        tools = GatedTools("Slow")
        text = "before " + call_text("Slow")
        client = httpx.AsyncClient(headers=HEADERS, timeout=20, trust_env=False)
        async with ScriptedUpstream([say(text)]) as up, client:
            async with running(tmp_path, up.base_url, sources=[tools]) as server:
                url = f"{server.url}/v1/chat/completions"
                asking = asyncio.create_task(client.post(url, json=chat_body("x", stream=stream)))
                await tools.begun["Slow"].wait()
                await up.served()
            response = await asking  # the server has stopped by now
            note = "\n[ERROR] " + ShutdownError().message
            assert response.status_code == 200
            if stream:
                got = read_stream(response)
                assert (got.text, got.finishes, got.done) == (text + note, ["stop"], 1)
            else:
                assert response.json()["choices"][0]["message"]["content"] == text + note
            assert tools.log == ["Slow cancelled"]
            (end,) = [event for event in server.events if isinstance(event, TurnFinished)]
            assert (end.outcome, end.error) == (Outcome.CANCELLED, "shutdown")

    run(main())


@MODES
def test_a_server_that_stops_before_the_first_byte_says_so(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        async with ScriptedUpstream([held("x", 0)]) as up, running(tmp_path, up.base_url) as server:
            asking = asyncio.create_task(server.chat("x", stream=stream))
            await up.held()
            await server.services.running.stop_all(0)
            response = await asking
            assert response.status_code == (200 if stream else 503)
            assert "shutting down" in response.text
            if stream:
                assert read_stream(response).done == 1

    run(main())


@MODES
def test_beyond_the_limit_of_running_turns_requests_are_refused(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        config = ["MaxRunningTurns=1"]
        async with (
            ScriptedUpstream([held("text", 0), say("next")]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            first = asyncio.create_task(server.chat("x"))
            await up.held()
            refused = await server.chat("x", stream=stream)
            assert refused.status_code == 503
            assert "MaxRunningTurns" in refused.json()["error"]["message"]
            up.release()
            await first
            assert (await server.chat("x", stream=stream)).status_code == 200

    run(main())


def test_requests_whose_bodies_arrive_slowly_do_not_slip_past_the_limit(tmp_path: Path) -> None:
    async def main() -> None:
        config = ["MaxRunningTurns=1"]
        async with (
            ScriptedUpstream([held("text", 0)]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            sending, complete = asyncio.Event(), asyncio.Event()
            data = json.dumps(chat_body("slow")).encode()

            async def body() -> AsyncIterator[bytes]:
                yield data[:5]
                sending.set()
                await complete.wait()
                yield data[5:]

            slow = asyncio.create_task(
                server.client.post("/v1/chat/completions", content=body(), headers={"content-type": "application/json"})
            )
            await sending.wait()
            first = asyncio.create_task(server.chat("x"))
            await up.held()
            complete.set()
            assert (await slow).status_code == 503
            up.release()
            assert (await first).status_code == 200

    run(main())


def test_the_last_words_to_a_client_that_does_not_read_are_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turn_module, "FAREWELL_SECONDS", 0.01)

    async def main() -> None:
        async with ScriptedUpstream([say("text")]) as up, running(tmp_path, up.base_url) as server:
            waiting = asyncio.Event()

            async def write(data: bytes, last: bool) -> None:
                waiting.set()
                await asyncio.Event().wait()

            services = server.services
            handle = RunningTurn()
            request = TurnRequest(id="t", body=chat_body("x", stream=True), model="m", stream=True)
            turn = Turn(
                request,
                services.turn_rules(stream=True),
                services.turn_parts,
                StreamRenderer(write, model="m"),
                handle,
            )
            task = services.running.start(handle, turn.run(), "t")
            await waiting.wait()
            handle.stop(StopReason.INTERRUPT)
            await task
            assert not task.cancelling()
            (end,) = [event for event in server.events if isinstance(event, TurnFinished)]
            assert end.outcome is Outcome.CANCELLED

    run(main())
    assert "does not read the end" in caplog.text


def test_a_turn_that_is_stopped_in_the_very_step_of_its_start_is_told_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url) as server:
            sent: list[bytes] = []

            async def write(data: bytes, last: bool) -> None:
                sent.append(data)

            services = server.services
            handle = RunningTurn(frozenset({"r"}))
            request = TurnRequest(id="t", body=chat_body("x", stream=True), model="m", stream=True)
            renderer = StreamRenderer(write, model="m")
            turn = Turn(request, services.turn_rules(stream=True), services.turn_parts, renderer, handle)
            task = services.running.start(handle, turn.run(), "t")
            assert services.running.interrupt("r")
            await task
            assert INTERRUPTED.encode() in b"".join(sent)
            assert [type(event) for event in server.events] == [TurnStarted, TurnFinished]

    run(main())


def test_an_interrupt_between_two_rounds_ends_the_answer_without_another_request(tmp_path: Path) -> None:
    async def main() -> None:
        tools = GatedTools("Quick")
        tools.gates["Quick"].set()
        async with (
            ScriptedUpstream([say(call_text("Quick"))]) as up,
            running(tmp_path, up.base_url, sources=[tools]) as server,
        ):

            def stop(event: Event) -> None:
                if isinstance(event, RoundStarted) and event.number == 2:
                    server.services.running.interrupt("r")

            server.services.events.listen(stop)
            got = await server.stream("x", requestId="r")
            assert (got.text, got.finishes, got.done) == (call_text("Quick"), ["stop"], 1)
            assert len(up.requests) == 1

    run(main())
