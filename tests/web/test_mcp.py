"""``/mcp`` over a real server: transport rules of both eras (mcp.md MCP-40 to MCP-47, MCP-6) and who comes in."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from app.config.snapshot import load
from app.extend import CallFinished, Door
from app.mcp.server.http_sessions import RETRY_MS
from app.services import Services
from tests.server import ECHO, HEADERS, KEY, run, running, write_plugin
from tests.waiting import until
from tests.web.asgi import BEARER, app_in, ask
from tests.web.mcp_posts import BOTH, MODERN, NOWHERE, answer, initialize, modern, opened, post, request

SLOW = """
import json, pathlib, sys, time
arguments = json.loads(sys.stdin.read())
pathlib.Path(arguments["mark"]).write_text("begun")
while not pathlib.Path(arguments["mark"] + ".go").exists():
    time.sleep(0.01)
print(json.dumps({"status": "success", "result": "done"}))
"""


def test_the_sdk_client_lists_and_calls_tools_in_both_eras(tmp_path: Path) -> None:
    """One endpoint for all revisions; calls are known by their door and the client's address (D66)."""

    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        async with running(tmp_path, NOWHERE) as server:
            for mode, revision in (("legacy", "2025-11-25"), ("auto", MODERN)):
                async with (
                    httpx.AsyncClient(headers=HEADERS, trust_env=False) as http,
                    Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
                ):
                    assert client.protocol_version == revision
                    assert "Echo" in [tool.name for tool in (await client.list_tools()).tools]
                    result = await client.call_tool("Echo", {"text": mode})
                    assert result.content[0].text == mode
            finished = [event for event in server.events if isinstance(event, CallFinished)]
            assert [event.context.door for event in finished] == [Door.MCP, Door.MCP]
            assert [event.context.client_ip for event in finished] == ["127.0.0.1", "127.0.0.1"]

    run(main())


def test_mcp_40_a_post_needs_its_headers_and_notifications_are_accepted_without_a_body(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            assert (await post(server.client, initialize(), accept="application/json")).status_code == 406
            assert (await post(server.client, initialize(), content_type="text/plain")).status_code == 400
            session = await opened(server)
            accepted = await session.post(request("notifications/cancelled", {"requestId": 99}, id=None))
            assert (accepted.status_code, accepted.content) == (202, b"")
            answered = await session.post(request("ping"))
            assert answered.headers["content-type"].startswith("text/event-stream")
            assert answer(answered)["result"] == {}

    run(main())


def test_mcp_40_a_body_over_the_limit_is_413_before_it_is_read_and_compressed_ones_are_415(tmp_path: Path) -> None:
    async def main() -> None:
        app = app_in(tmp_path, "MCPBodyLimitMB=1")
        big = [b"x" * 1024] * 1025
        told = await ask(app, "POST", "/mcp", BEARER, ("host", "localhost"), ("content-length", "1048577"), blocks=big)
        assert (told.status, told.reads) == (413, 0)
        untold = await ask(app, "POST", "/mcp", BEARER, ("host", "localhost"), blocks=big)
        assert (untold.status, untold.reads) == (413, 1025)
        packed = await ask(app, "POST", "/mcp", BEARER, ("host", "localhost"), ("content-encoding", "gzip"))
        assert packed.status == 415

    run(main())


def test_mcp_41_a_session_has_an_id_is_missed_is_unknown_and_can_be_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            session = await opened(server)
            assert len(session.id) >= 32 and all(0x21 <= ord(character) <= 0x7E for character in session.id)
            assert (await session.post(request("ping"), mcp_session_id=None)).status_code == 400
            assert (await session.post(request("ping"), mcp_session_id="unknown")).status_code == 404
            assert (await session.post(request("ping"))).status_code == 200
            ended = await server.client.delete("/mcp", headers={"mcp-session-id": session.id})
            assert ended.status_code == 200
            assert (await session.post(request("ping"))).status_code == 404

    run(main())


def test_mcp_41_more_sessions_than_allowed_are_503_and_idle_ones_end_by_the_settings_of_now(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE, config=["MCPMaxSessions=1"]) as server:
            session = await opened(server)
            refused = await post(server.client, initialize())
            assert refused.status_code == 503
            assert (await session.post(request("ping"))).status_code == 200
            await server.client.delete("/mcp", headers={"mcp-session-id": session.id})
            apply(server.services, "MCPMaxSessions=2", "MCPSessionSeconds=0.05")
            short = (await post(server.client, initialize())).headers["mcp-session-id"]
            async with asyncio.timeout(20):
                while (await post(server.client, request("ping"), mcp_session_id=short)).status_code != 404:
                    await asyncio.sleep(0.1)  # each request begins its time anew

    run(main())


def apply(services: Services, *lines: str) -> None:
    """Put further settings in force, as a reload would."""
    file = services.config.home / "config.env"
    file.write_text(file.read_text(encoding="utf-8") + "\n".join(lines) + "\n", encoding="utf-8")
    services.apply(load(services.config.home, {}))


def test_mcp_42_the_revision_of_a_session_is_assumed_checked_and_must_be_a_known_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            session = await opened(server, "2025-06-18")
            assert (await session.post(request("ping"), mcp_protocol_version=None)).status_code == 200
            other = await session.post(request("ping"), mcp_protocol_version="2025-03-26")
            assert (other.status_code, other.json()["error"]["code"], other.json()["id"]) == (400, -32600, 1)
            unknown = await session.post(request("ping"), mcp_protocol_version="2019-01-01")
            assert unknown.status_code == 400
            asked = await opened(server, "2031-01-01")
            assert asked.version == "2025-11-25"
            assert (await asked.post(request("ping"))).status_code == 200

    run(main())


async def events(lines: Any, count: int) -> list[dict[str, str]]:
    """The next ``count`` events of a stream."""
    found: list[dict[str, str]] = []
    event: dict[str, str] = {}
    async for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(":")
            event[name] = value.strip()
        elif not line and event:
            found.append(event)
            event = {}
            if len(found) == count:
                break
    return found


def test_mcp_43_a_client_that_lost_its_stream_gets_the_rest_of_that_one_and_no_others(tmp_path: Path) -> None:
    """MCP-43, MCP-44: the first event is empty and has an id; hanging up does not cancel the call."""

    async def main() -> None:
        write_plugin(tmp_path, "Slow", SLOW)
        mark = tmp_path / "mark"
        async with running(tmp_path, NOWHERE) as server:
            session, stranger = await opened(server), await opened(server)
            headers = {"accept": BOTH, "mcp-session-id": session.id, "mcp-protocol-version": session.version}
            call = request("tools/call", {"name": "Slow", "arguments": {"mark": str(mark)}}, 7)
            async with server.client.stream("POST", "/mcp", json=call, headers=headers) as response:
                (first,) = await events(response.aiter_lines(), 1)
                assert first["data"] == "" and first["id"] and int(first["retry"]) == RETRY_MS
                await until(mark.exists)
            await session.call("ping", id=8)  # another stream of the same session
            (tmp_path / "mark.go").touch()
            await until(lambda: any(isinstance(event, CallFinished) for event in server.events))

            async def resumed(id: str) -> httpx.Response:
                return await server.client.get(
                    "/mcp", headers={**headers, "mcp-session-id": id, "last-event-id": first["id"]}
                )

            async with asyncio.timeout(20):
                while not (again := await resumed(session.id)).text.strip():
                    await asyncio.sleep(0.02)
            told = [
                json.loads(line[5:])
                for line in again.text.splitlines()
                if line.startswith("data:") and line[5:].strip()
            ]
            assert [message["id"] for message in told] == [7]
            assert told[0]["result"]["content"][0]["text"] == "done"
            assert (await resumed(stranger.id)).text.strip() == ""  # ids of another session mean nothing

    run(main())


def test_mcp_43_a_session_has_one_stream_of_its_own_at_a_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            session = await opened(server)
            headers = {"accept": "text/event-stream", "mcp-session-id": session.id}
            async with server.client.stream("GET", "/mcp", headers=headers) as stream:
                assert stream.status_code == 200
                assert (await server.client.get("/mcp", headers=headers)).status_code == 409
            refused = await server.client.get("/mcp", headers={**headers, "accept": "application/json"})
            assert refused.status_code == 406

    run(main())


SENDERS: list[tuple[dict[str, str], int]] = [
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://localhost:3000"}, 200),
    ({"origin": "http://[::1]:3000"}, 200),
    ({"origin": "https://app.example"}, 200),
    ({"host": "evil.example"}, 403),
    ({"host": "evil.example:6005"}, 403),
    ({"host": "localhost:6005"}, 200),
    ({"host": "[::1]:6005"}, 200),
    ({"host": "named.example:6005"}, 200),
    ({"host": "named.example", "origin": "http://named.example"}, 200),
    ({"host": "named.example", "origin": "http://named.example:81"}, 403),
    ({"host": "user@localhost"}, 403),
    ({"host": ""}, 403),
    ({"host": "[::"}, 403),
]


def test_mcp_45_pages_and_names_of_others_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        config = ["MCPAllowedHosts=Named.example", "MCPAllowedOrigins=https://app.example"]
        async with running(tmp_path, NOWHERE, config=config) as server:
            for headers, status in SENDERS:
                response = await post(server.client, initialize(), **headers)
                assert response.status_code == status, (headers, response.text)
                if "origin" in headers:
                    allowed = response.headers.get("access-control-allow-origin")
                    assert allowed == (headers["origin"] if status == 200 else None)
                    assert "Mcp-Session-Id" in response.headers["access-control-expose-headers"]

    run(main())


def test_mcp_45_beyond_loopback_any_name_is_taken_with_the_key_and_none_without(tmp_path: Path) -> None:
    async def main() -> None:
        app = app_in(tmp_path, "HOST=0.0.0.0")
        named = ("host", "vcp.lan:6005")
        assert (await ask(app, "GET", "/mcp", named)).status == 401
        foreign = ("origin", "https://evil.example")
        assert (await ask(app, "GET", "/mcp", named, BEARER, foreign)).status == 403
        # The key and the name are good, so it is read.
        assert (await ask(app, "POST", "/mcp", named, BEARER, ("content-length", "99999999"))).status == 413

    run(main())


def test_mcp_45_a_preflight_lets_only_allowed_pages_ask(tmp_path: Path) -> None:
    async def main() -> None:
        app = app_in(tmp_path)
        wanted = ("access-control-request-headers", "authorization,mcp-session-id")
        for origin, allowed in (("http://localhost:3000", "http://localhost:3000"), ("https://evil.example", None)):
            told = await ask(app, "OPTIONS", "/mcp", ("origin", origin), ("host", "localhost"), wanted)
            assert told.status == 204
            assert told.headers.get("access-control-allow-origin") == allowed
            assert told.headers["access-control-allow-headers"] == wanted[1]

    run(main())


async def raw_post(url: str, message: Any, headers: str) -> bytes:
    """Send a request with headers exactly as they are written; the first line of the answer."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    body = json.dumps(message)
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: {BOTH}\r\nContent-Type: application/json\r\n"
        f"MCP-Protocol-Version: {MODERN}\r\nContent-Length: {len(body)}\r\n{headers}"
    )
    writer.write(head.encode() + b"Authorization: " + HEADERS[b"Authorization"] + b"\r\n\r\n" + body.encode())
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer


def test_mcp_46_modern_requests_are_posts_whose_headers_say_what_the_body_says(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        async with running(tmp_path, NOWHERE) as server:
            client = server.client
            listed = modern("tools/list")
            names = {"mcp_protocol_version": MODERN, "mcp_method": "tools/list"}
            good = await post(client, listed, **names)
            assert good.status_code == 200 and good.json()["result"]["resultType"] == "complete"
            assert (good.json()["result"]["ttlMs"], good.json()["result"]["cacheScope"]) == (0, "private")  # MCP-31
            assert "mcp-session-id" not in good.headers
            for wrong in ({"mcp_method": None}, {"mcp_method": "tools/call"}):
                refused = await post(client, listed, **{**names, **wrong})
                assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32020), wrong
            unsaid = await post(client, listed, mcp_method="tools/list")
            assert (unsaid.status_code, unsaid.json()["error"]["code"]) == (400, -32020)
            call = modern("tools/call", {"name": "Echo", "arguments": {"text": "x"}})
            headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call"}
            nameless = await post(client, call, **headers)
            assert (nameless.status_code, nameless.json()["error"]["code"]) == (400, -32020)
            called = await post(client, call, **headers, mcp_name="Echo")
            assert called.json()["result"]["content"][0]["text"] == "x"
            blanks = await raw_post(server.url, call, "Mcp-Method:tools/call \t\r\nMcp-Name: \t Echo  \r\n")
            assert blanks.startswith(b"HTTP/1.1 200"), blanks  # they are no part of a value
            unknown = await post(client, modern("no/such"), mcp_protocol_version=MODERN, mcp_method="no/such")
            assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, -32601)
            old = await post(
                client, modern("tools/list", version="2031-01-01"), **{**names, "mcp_protocol_version": "2031-01-01"}
            )
            assert (old.status_code, old.json()["error"]["code"]) == (400, -32022)
            for method in ("GET", "DELETE"):
                response = await client.request(method, "/mcp", headers={"mcp-protocol-version": MODERN})
                assert response.status_code == 405

    run(main())


def test_mcp_46_marked_arguments_are_repeated_in_headers_which_must_say_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        schema = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}
        command = {"command": "", "description": "says it", "parameters": schema}
        write_plugin(tmp_path, "Echo", ECHO, capabilities={"invocationCommands": [command]})
        async with running(tmp_path, NOWHERE) as server:

            async def call(text: str, header: str | None) -> httpx.Response:
                message = modern("tools/call", {"name": "Echo", "arguments": {"text": text}})
                names = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "Echo"}
                return await post(server.client, message, **names, mcp_param_text=header)

            for text, header in (("x", "x"), ("天气", "=?base64?5aSp5rCU?=")):
                said = await call(text, header)
                assert said.json()["result"]["content"][0]["text"] == text
            for wrong in (None, "y"):
                refused = await call("x", wrong)
                assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32020), wrong

    run(main())


def test_mcp_47_hanging_up_cancels_a_modern_call(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Slow", SLOW)
        mark = tmp_path / "mark"
        async with running(tmp_path, NOWHERE) as server:
            call = modern("tools/call", {"name": "Slow", "arguments": {"mark": str(mark)}})
            headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "Slow"}
            asked = asyncio.create_task(post(server.client, call, **headers))
            await until(mark.exists)
            asked.cancel()
            await until(lambda: any(isinstance(event, CallFinished) for event in server.events))
            (finished,) = [event for event in server.events if isinstance(event, CallFinished)]
            assert finished.outcome == "cancelled"

    run(main())


def test_mcp_6_batches_are_answered_where_the_revision_has_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            session = await opened(server, "2025-03-26")
            batch = [
                request("ping", id="a"),
                request("notifications/cancelled", {"requestId": 5}, id=None),
                request("tools/list", id=2),
                {"jsonrpc": "1.0", "id": 3, "method": "ping"},
                "nonsense",
            ]
            response = await session.post(batch)
            answers = response.json()
            assert response.status_code == 200
            assert [one["id"] for one in answers] == ["a", 2, 3, None]
            assert [("result" in one, one.get("error", {}).get("code")) for one in answers] == [
                (True, None),
                (True, None),
                (False, -32600),
                (False, -32600),
            ]
            quiet = await session.post([request("notifications/cancelled", {"requestId": 5}, id=None)])
            assert (quiet.status_code, quiet.content) == (202, b"")
            for wrong in ([], [initialize()], [request("ping")] * 101):
                refused = await session.post(wrong)
                assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
            newer = await opened(server, "2025-06-18")
            refused = await newer.post([request("ping")])
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
            assert refused.json()["id"] is None
            early = await post(server.client, [request("ping")])
            assert early.status_code == 400

    run(main())


NO_MESSAGES: list[tuple[Any, int, Any]] = [
    (b"{oops", -32700, None),
    (b"\xff\xfe", -32700, None),
    (b"", -32700, None),
    (b"[" * 100_000, -32700, None),
    ({"id": 4, "method": "ping"}, -32600, 4),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600, None),
    ({"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}, -32600, None),
    ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600, None),
    ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, -32600, None),
    ({"jsonrpc": "2.0", "id": 4, "method": 7}, -32600, 4),
    ({"jsonrpc": "2.0", "id": 4}, -32600, 4),
    ({"jsonrpc": "2.0", "id": "x", "method": "notifications/initialized"}, -32600, "x"),
    ({"jsonrpc": "2.0", "id": 4, "method": "ping", "params": []}, -32600, 4),
]


def test_mcp_4_what_is_no_message_is_refused_and_the_session_lives(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            session = await opened(server)
            for message, code, id in NO_MESSAGES:
                refused = await session.post(message)
                assert refused.status_code == 400, message
                assert (refused.json()["error"]["code"], refused.json().get("id")) == (code, id), message
            assert (await session.call("ping"))["result"] == {}

    run(main())


def test_mcp_4_an_id_is_taken_until_its_work_has_ended_and_no_answer_goes_astray(tmp_path: Path) -> None:
    """Also in a batch, and after the client has hung up (MCP-44); "7" and 7 are one id."""

    async def main() -> None:
        write_plugin(tmp_path, "Slow", SLOW)
        marks = [tmp_path / "one", tmp_path / "two"]
        async with running(tmp_path, NOWHERE) as server:
            session, stranger = await opened(server, "2025-03-26"), await opened(server)

            async def begun(mark: Path) -> asyncio.Task[httpx.Response]:
                call = request("tools/call", {"name": "Slow", "arguments": {"mark": str(mark)}}, 7)
                task = asyncio.create_task(session.post(call))
                await until(mark.exists)
                return task

            first = await begun(marks[0])
            for same in (7, "7"):
                refused = await session.post(request("ping", id=same))
                assert (refused.status_code, refused.json()["id"]) == (400, same)
                assert refused.json()["error"]["code"] == -32600
            (told,) = (await session.post([request("ping", id=7)])).json()
            assert (told["id"], told["error"]["code"]) == (7, -32600)
            assert (await stranger.call("ping", id=7))["result"] == {}
            (tmp_path / "one.go").touch()
            assert answer(await first)["result"]["content"][0]["text"] == "done"
            assert (await session.post(request("ping", id=7), accept="nothing")).status_code == 406
            assert (await session.call("ping", id=7))["result"] == {}  # what was refused holds nothing

            gone = await begun(marks[1])
            gone.cancel()
            await asyncio.wait({gone})
            assert (await session.post(request("ping", id=7))).status_code == 400
            (tmp_path / "two.go").touch()
            async with asyncio.timeout(20):
                while (await session.post(request("ping", id=7))).status_code != 200:
                    await asyncio.sleep(0.02)

    run(main())


def test_mcp_4_frames_of_the_newest_revision_are_held_to_the_same_rules(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            for message, id in (
                ({**modern("notifications/initialized"), "id": 5}, 5),
                ({**modern("tools/list"), "id": None}, None),
                ({**modern("tools/list", id="a"), "jsonrpc": "1.0"}, "a"),
                ([modern("tools/list")], None),
            ):
                headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/list"}
                refused = await post(server.client, message, **headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600), message
                assert refused.json()["id"] == id

    run(main())


def test_wrong_keys_are_refused_as_everywhere_and_block_an_address(tmp_path: Path) -> None:
    """MCP-71: the key counts in its header only."""

    async def main() -> None:
        app = app_in(tmp_path, "HOST=0.0.0.0")
        body = json.dumps(initialize()).encode()
        for headers in ((), (("authorization", "Bearer wrong"),), (("authorization", f"Basic {KEY}"),)):
            refused = await ask(app, "POST", "/mcp", *headers, blocks=[body])
            assert (refused.status, refused.headers["www-authenticate"], refused.reads) == (401, "Bearer", 0)
            assert KEY not in refused.body.decode()
        for number in range(20):
            wrong = ("authorization", f"Bearer wrong-{number}")
            assert (await ask(app, "POST", "/mcp", wrong, client="203.0.113.9")).status == 401
        assert (await ask(app, "POST", "/mcp", BEARER, client="203.0.113.9")).status == 403

    run(main())


def test_the_door_can_be_closed_and_opened_while_the_server_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE, config=["MCPServer=false"]) as server:
            assert (await post(server.client, initialize())).status_code == 404
            apply(server.services, "MCPServer=true")
            assert (await post(server.client, initialize())).status_code == 200
            for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
                assert (await server.client.get(path)).status_code == 404  # no issuer is set

    run(main())


def test_p83_streams_that_only_wait_end_when_the_stop_begins(tmp_path: Path) -> None:
    """Both a session's own stream and a modern subscription; a running call still has its time."""

    async def main() -> None:
        async with running(tmp_path, NOWHERE) as server:
            session = await opened(server)
            listen = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            headers = {
                "accept": BOTH,
                "mcp-protocol-version": MODERN,
                "mcp-method": "subscriptions/listen",
            }
            async with (
                server.client.stream("GET", "/mcp", headers={"accept": BOTH, "mcp-session-id": session.id}) as own,
                server.client.stream("POST", "/mcp", json=listen, headers=headers) as news,
            ):
                lines = news.aiter_lines()
                (acknowledged,) = await events(lines, 1)
                assert "acknowledged" in acknowledged["data"]
                server.services.stopping.begin(30)
                async with asyncio.timeout(5):
                    assert [line async for line in own.aiter_lines() if line.startswith("data:")] == []
                    async for _line in lines:
                        pass

    run(main())
