"""``POST /plugin-callback/…``: who may call, what is stored, what is told (spec 1.10; D19, D36, B3, B4, R8, P53)."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from app.config.home_folders import HOME_FOLDERS, make_home
from app.config.snapshot import load
from app.extend import BackgroundResult, CallContext, Door, Event, Mute, SocketRequest, ToolCall, ToolPush
from app.hub.clients import ClientType
from app.services import Services
from app.tools import background_results
from app.web.app import create_app
from app.web.blocking import KEY_FAILURES
from tests.server import write_plugin
from tests.web.asgi import BEARER, KEY, Answered, ask

FAR = "203.0.113.9"
NODE = "198.51.100.4"
UNAUTHORIZED = {"error": "Unauthorized (Bearer token required)"}
DONE = {"status": "success", "message": "Callback received and processed"}
NO_PLUGIN = {"status": "error", "message": "Plugin not found, but callback noted."}
BODY = {"status": "Succeed", "data": "片"}


class Installation:
    """A server with the plugin ``Video`` and one with a dot in its name, asked without a socket."""

    def __init__(self, home: Path, *config: str) -> None:
        make_home(home)
        push = {"enabled": True, "messageType": "video", "targetClientType": "VCPLog"}
        write_plugin(home, "Video", "", pluginType="asynchronous", webSocketPush=push)
        write_plugin(home, "Wan2.1VideoGen", "")
        (home / "config.env").write_text("\n".join(("API_URL=http://127.0.0.1:9", *config)), encoding="utf-8")
        self.home = home
        self.folder = home / "VCPAsyncResults"
        self.services = Services(load(home, {}), KEY)
        self.app: ASGIApp = create_app(self.services)
        self.events: list[Event] = []
        self.services.events.listen(self.events.append)

    async def post(
        self,
        path: str,
        *headers: tuple[str, str],
        body: Any = BODY,
        blocks: Iterable[bytes] | None = None,
        client: str = "127.0.0.1",
    ) -> Answered:
        given = blocks if blocks is not None else [json.dumps(body).encode()]
        return await ask(self.app, "POST", path, *headers, blocks=given, client=client)

    def sent(self, path: str, *headers: tuple[str, str], **options: Any) -> Answered:
        return asyncio.run(self.post(path, *headers, **options))

    def stored(self) -> dict[str, Any]:
        if not self.folder.exists():
            return {}
        return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in self.folder.iterdir()}


class Line:
    """An open connection that says nothing."""

    address = NODE
    waiting = 0

    def send(self, text: str | bytes) -> bool:
        return bool(text)

    def close(self, code: int = 1000, reason: str = "") -> None:
        pass

    async def ping(self, seconds: float) -> float | None:
        return None


@pytest.fixture
def server(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_a_callback_of_this_machine_is_stored_and_told_with_the_literals(server: Installation) -> None:
    answer = server.sent("/plugin-callback/Video/7")
    assert (answer.status, answer.json) == (200, DONE)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert server.stored() == {"Video-7.json": BODY}
    assert (server.folder / "Video-7.json").read_text(encoding="utf-8") == json.dumps(
        BODY, indent=2, ensure_ascii=False
    )
    assert server.events == [BackgroundResult("Video", "7", BODY, ToolPush("video", "VCPLog"))]


def test_r8_an_unknown_plugin_is_404_and_nothing_is_written(server: Installation) -> None:
    answer = server.sent("/plugin-callback/Nope/1")
    assert (answer.status, answer.json, answer.reads) == (404, NO_PLUGIN, 0)
    assert server.stored() == {}
    assert server.events == []


def test_p53_a_plugin_with_a_dot_in_its_name_is_found_again(server: Installation) -> None:
    assert server.sent("/plugin-callback/Wan2.1VideoGen/abc-1").json == DONE
    assert server.services.background_results.read("Wan2.1VideoGen", "abc-1") == BODY
    assert server.events == [BackgroundResult("Wan2.1VideoGen", "abc-1", BODY, None)]


def test_only_the_fixed_part_of_the_path_ignores_case(server: Installation) -> None:  # D36
    assert server.sent("/Plugin-Callback//Video/aB/").status == 200
    assert set(server.stored()) == {"Video-aB.json"}
    assert server.sent("/plugin-callback/video/7").status == 404


# --- who may call (D19) -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/plugin-callback/Video/7", "/plugin-callback/wrong-token/Video/7"])
def test_a_stranger_is_refused_before_the_body_is_read(server: Installation, path: str) -> None:
    answer = server.sent(path, client=FAR)
    assert (answer.status, answer.json, answer.reads) == (401, UNAUTHORIZED, 0)
    assert server.stored() == {}
    assert server.events == []


def test_a_stranger_does_not_learn_which_plugins_there_are(server: Installation) -> None:
    assert server.sent("/plugin-callback/Nope/7", client=FAR).status == 401


def test_a_connected_node_needs_no_token(server: Installation) -> None:
    async def main() -> None:
        assert (await server.post("/plugin-callback/Video/7", client=NODE)).status == 401
        channel = server.services.hub.handler(ClientType.NODE, SocketRequest("/vcp-distributed-server", NODE))
        channel.opened(Line())
        channel.text('{"type":"register_tools","data":{"serverName":"far","tools":[]}}')
        assert (await server.post("/plugin-callback/Video/7", client=NODE)).json == DONE
        channel.closed(1000)
        assert (await server.post("/plugin-callback/Video/7", client=NODE)).status == 401

    asyncio.run(main())


class FarNode:
    """A node at ``NODE`` that offers the plugin ``FarVideo``, and a ``Video`` beside this server's own."""

    def __init__(self, server: Installation) -> None:
        self._services = server.services
        self._line = Answering()
        self.channel = server.services.hub.handler(ClientType.NODE, SocketRequest("/vcp-distributed-server", NODE))
        self.channel.opened(self._line)
        push = {"enabled": True, "messageType": "far_video"}
        tools = [
            {"name": name, "pluginType": "asynchronous", "entryPoint": {"command": "x"}, "webSocketPush": push}
            for name in ("FarVideo", "Video")
        ]
        self.say("register_tools", serverName="far", tools=tools)

    def say(self, kind: str, **data: Any) -> None:
        self.channel.text(json.dumps({"type": kind, "data": data}))

    async def called(self, tool: str, answer: Any, mute: Mute) -> None:
        """A call of a chat has been answered by the node."""
        context = CallContext("turn", Door.STREAM, mute=mute)
        running = asyncio.create_task(self._services.router.call(ToolCall("1", tool, {}), context))
        request = await self._line.asked()
        self.say("tool_result", requestId=request["requestId"], status="success", result=answer)
        assert (await running).ok


class Answering(Line):
    """A connection of a node that is asked."""

    def __init__(self) -> None:
        self._asked: asyncio.Queue[Any] = asyncio.Queue()

    def send(self, text: str | bytes) -> bool:
        message = json.loads(text)
        if message["type"] == "execute_tool":
            self._asked.put_nowait(message["data"])
        return True

    async def asked(self) -> Any:
        return await self._asked.get()


def test_the_plugin_of_a_node_is_a_known_plugin(server: Installation) -> None:
    """A node's plugin may call the main server itself, as its settings say (1.10)."""

    async def main() -> None:
        far = FarNode(server)
        assert (await server.post("/plugin-callback/FarVideo/7", client=NODE)).json == DONE
        assert server.stored() == {"FarVideo-7.json": BODY}
        assert server.events[-1] == BackgroundResult("FarVideo", "7", BODY, ToolPush("far_video"))
        assert (await server.post("/plugin-callback/FarVideo/7", client=FAR)).status == 401
        far.channel.closed(1000)
        assert (await server.post("/plugin-callback/FarVideo/8")).json == NO_PLUGIN

    asyncio.run(main())


def test_a_task_that_a_nodes_first_answer_named_needs_no_token(server: Installation) -> None:
    async def main() -> None:
        far, mute = FarNode(server), Mute()
        await far.called("FarVideo", {"note": "wait for {{VCP_ASYNC_RESULT::FarVideo::t1}}"}, mute)
        await far.called("FarVideo", {"requestId": "t2"}, Mute())
        for task, status in (("t1", 200), ("t2", 200), ("t3", 401)):
            assert (await server.post(f"/plugin-callback/FarVideo/{task}", client=FAR)).status == status
        mute.muted = True  # D27
        for task in ("t1", "t2"):
            assert (await server.post(f"/plugin-callback/FarVideo/{task}", client=FAR)).json == DONE
        told = [event for event in server.events if isinstance(event, BackgroundResult)]
        assert [result.push is None for result in told] == [False, False, True, False]

    asyncio.run(main())


def test_a_node_lets_nobody_in_for_a_plugin_of_ours(server: Installation) -> None:
    async def main() -> None:
        far = FarNode(server)
        await far.called("far#Video", {"requestId": "t1"}, Mute())
        assert (await server.post("/plugin-callback/Video/t1", client=FAR)).status == 401
        assert server.stored() == {}

    asyncio.run(main())


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_every_spelling_of_loopback_is_this_machine(server: Installation, client: str) -> None:
    assert server.sent("/plugin-callback/Video/7", client=client).json == DONE


@pytest.mark.parametrize(
    "header",
    [
        ("x-forwarded-for", FAR),
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1"),
        ("x-real-ip", FAR),
        ("origin", "https://hostile.example"),
    ],
)
def test_what_comes_through_a_proxy_or_a_browser_on_this_machine_is_not_local(
    server: Installation, header: tuple[str, str]
) -> None:
    assert server.sent("/plugin-callback/Video/7", header).status == 401
    token = server.services.callback_tokens.issue("Video")
    assert server.sent(f"/plugin-callback/{token}/Video/7", header).status == 200


def test_a_token_lets_its_plugin_in_for_its_task_and_no_other(server: Installation) -> None:
    token = server.services.callback_tokens.issue("Video")
    assert server.sent(f"/plugin-callback/{token}/Wan2.1VideoGen/7", client=FAR).status == 401
    assert server.sent(f"/plugin-callback/{token}/Video/7", client=FAR).json == DONE
    assert server.sent(f"/plugin-callback/{token}/Video/8", client=FAR).status == 401
    assert server.sent(f"/plugin-callback/{token.swapcase()}/Video/7", client=FAR).status == 401
    assert set(server.stored()) == {"Video-7.json"}


def test_a_task_that_a_first_answer_named_needs_no_token(server: Installation) -> None:
    server.services.callback_tokens.learn("Video", ("7",))
    assert server.sent("/plugin-callback/Video/7", client=FAR).json == DONE
    assert server.sent("/plugin-callback/Video/8", client=FAR).status == 401
    assert server.sent("/plugin-callback/Wan2.1VideoGen/7", client=FAR).status == 401


def test_whoever_has_the_key_may_tell_anything(server: Installation) -> None:
    assert server.sent("/plugin-callback/Video/7", BEARER, client=FAR).json == DONE
    assert server.sent("/plugin-callback/Nope/7", BEARER, client=FAR).json == NO_PLUGIN
    assert server.sent("/plugin-callback/Video/8", ("authorization", "Bearer wrong"), client=FAR).status == 401


def test_a_token_lives_on_in_the_next_server(tmp_path: Path) -> None:
    token = Installation(tmp_path).services.callback_tokens.issue("Video")
    for folder in (tmp_path / "Plugin").iterdir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    assert Installation(tmp_path).sent(f"/plugin-callback/{token}/Video/7", client=FAR).json == DONE


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/plugin-callback/wrong/Video/7", ()),
        ("/plugin-callback/Video/7", (("authorization", "Bearer wrong"),)),
    ],
    ids=["wrong token", "wrong key"],
)
def test_wrong_tokens_block_an_address_like_wrong_keys(server: Installation, path: str, headers: Any) -> None:
    statuses = [server.sent(path, *headers, client=FAR).status for _ in range(KEY_FAILURES + 1)]
    assert statuses == [401] * KEY_FAILURES + [403]
    assert server.sent("/plugin-callback/Video/7", client="203.0.113.10").status == 401


def test_a_path_without_a_token_blocks_nobody(server: Installation) -> None:
    assert {server.sent("/plugin-callback/Video/7", client=FAR).status for _ in range(KEY_FAILURES + 1)} == {401}


def test_who_guesses_task_ids_is_blocked_like_who_guesses_keys(server: Installation) -> None:
    statuses = [server.sent(f"/plugin-callback/Video/guess-{n}", client=FAR).status for n in range(KEY_FAILURES + 1)]
    assert statuses == [401] * KEY_FAILURES + [403]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_other_methods_have_no_way_in(server: Installation, method: str) -> None:
    assert asyncio.run(ask(server.app, method, "/plugin-callback/Video/7", client=FAR)).status in (401, 405)


@pytest.mark.parametrize(
    "path",
    [
        "/plugin-callback",
        "/plugin-callback/",
        "/plugin-callback/Video",
        "/plugin-callback/a/b/c/d",
        "/plugin-callbackx/Video/7",
    ],
)
def test_paths_beside_the_route_need_the_key(server: Installation, path: str) -> None:
    assert server.sent(path).status == 401
    assert server.sent(path, BEARER).status == 404


# --- names (B3) -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/plugin-callback/Video/..",
        "/plugin-callback/Video/.",
        "/plugin-callback/Video/.hidden",
        "/plugin-callback/Video/a\\b",
        "/plugin-callback/Video/a\0b",
        "/plugin-callback/Video/a\nb",
        "/plugin-callback/Video/" + "x" * 300,
        "/plugin-callback/Video/" + "汉" * 100,
        "/plugin-callback/Video/a%2f..%2fb",
        "/plugin-callback/Video/a%5Cb",
        "/plugin-callback/token/Video/..",
    ],
)
def test_a_task_id_that_is_no_file_name_is_refused_without_a_write(server: Installation, path: str) -> None:
    answer = server.sent(path)
    assert answer.status == 400
    assert answer.json["status"] == "error"
    assert "任务 ID" in answer.json["message"] and "task id" in answer.json["message"]
    assert server.stored() == {}
    assert {path.name for path in server.home.iterdir()} == {*HOME_FOLDERS, "config.env"}


@pytest.mark.parametrize(
    "path",
    [
        "/plugin-callback/Video/../../config.env",
        "/plugin-callback/Video/../config.env",
        "/plugin-callback/..",
    ],
)
def test_a_decoded_traversal_reaches_no_file(server: Installation, path: str) -> None:
    before = (server.home / "config.env").read_text()
    assert server.sent(path).status in (400, 401, 404)
    assert server.stored() == {}
    assert (server.home / "config.env").read_text() == before


# --- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"status=Succeed",
        b'{"a":NaN}',
        b'{"a":1e999}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"[" * 150 + b"]" * 150,
        b'{"n":' + b"1" * 5000 + b"}",
    ],
    ids=["empty", "half", "form", "NaN", "infinite", "not UTF-8", "deep", "too deep", "digits"],
)
def test_a_body_that_is_no_sound_json_is_refused_with_the_reason(server: Installation, data: bytes) -> None:
    answer = server.sent("/plugin-callback/Video/7", blocks=[data])
    assert answer.status == 400
    assert answer.json["status"] == "error"
    assert "JSON" in answer.json["message"]
    assert server.stored() == {}
    assert server.events == []


@pytest.mark.parametrize("body", [[], "text", 5, None, {"a": "\ud83d"}, {"message": "汉😀\0"}])
def test_any_json_is_stored_as_it_is(server: Installation, body: Any) -> None:
    assert server.sent("/plugin-callback/Video/7", body=body).json == DONE
    assert server.stored() == {"Video-7.json": body}


def test_the_content_type_does_not_matter(server: Installation) -> None:
    assert server.sent("/plugin-callback/Video/7", ("content-type", "text/plain")).json == DONE


def test_a_body_over_the_limit_is_refused_and_not_read_on(tmp_path: Path) -> None:
    server = Installation(tmp_path, "CallbackBodyLimitMB=1")
    answer = server.sent("/plugin-callback/Video/7", blocks=itertools.repeat(b"x" * 65536))
    assert (answer.status, answer.json["status"]) == (413, "error")
    assert answer.reads <= 17
    declared = server.sent("/plugin-callback/Video/7", ("content-length", "2000000"))
    assert (declared.status, declared.reads) == (413, 0)
    assert server.stored() == {}


def test_progress_and_then_the_result_leave_the_result(server: Installation) -> None:
    async def main() -> None:
        for body in ({"progress": 50}, {"status": "Succeed"}):
            assert (await server.post("/plugin-callback/Video/7", body=body)).status == 200
        await asyncio.gather(*(server.post("/plugin-callback/Video/8", body={"n": n}) for n in range(20)))

    asyncio.run(main())
    assert server.stored()["Video-7.json"] == {"status": "Succeed"}
    assert server.stored()["Video-8.json"]["n"] in range(20)
    assert len([event for event in server.events if isinstance(event, BackgroundResult)]) == 22


def test_a_full_disk_is_500_so_that_the_plugin_can_try_again(
    server: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert server.sent("/plugin-callback/Video/7", body="old").status == 200
    server.events.clear()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(background_results.os, "fsync", full)
        answer = server.sent("/plugin-callback/Video/7", body="new")
    assert (answer.status, answer.json["status"]) == (500, "error")
    assert "No space left" in caplog.text
    assert server.stored() == {"Video-7.json": "old"}
    assert server.events == []
    assert server.sent("/plugin-callback/Video/7", body="new").status == 200


def test_tokens_do_not_stand_in_the_log(server: Installation, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = server.services.callback_tokens.issue("Video")
    server.sent(f"/plugin-callback/{token}/Video/7", client=FAR)
    server.sent(f"/plugin-callback/{token}/Video/8", client=FAR)
    server.sent(f"/plugin-callback/{token}/Video/7", client=FAR, blocks=[b"{"])
    assert token not in caplog.text
