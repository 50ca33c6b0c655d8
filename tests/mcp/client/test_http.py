"""Servers over HTTP: both eras, the old HTTP+SSE, and servers that behave badly (MCP-50, MCP-56, MCP-58)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest

from app.extend import ErrorKind
from app.mcp.client.status import ServerLimits, ServerState
from tests.mcp.client.bench import bench
from tests.mcp.client.web import MODERN, Peer, answer, serving, text
from tests.server import run
from tests.waiting import until

JSON = (b"content-type", b"application/json")
MANY = 3_000
"""So many pieces are endless here: the server is not told that nobody reads any more."""

STREAM = (b"content-type", b"text/event-stream")


@pytest.mark.parametrize("json_response", [True, False])
@pytest.mark.parametrize("legacy", [True, False])
def test_mcp_1_both_eras_are_spoken_over_http(tmp_path: Path, legacy: bool, json_response: bool) -> None:
    """MOD-10: by our own client, with the headers of the entry; no other program stands between."""

    async def main() -> None:
        peer = Peer("echo")
        async with peer.http(legacy=legacy, json_response=json_response) as url:
            entry = {"url": url, "headers": {"X-Key": "k"}}
            async with bench(tmp_path, {"web": entry}) as b:
                assert b.status("web").protocol == ("2025-11-25" if legacy else MODERN)
                assert await b.text("web.echo", text="hi") == "echo {'text': 'hi'}"
                assert b.status("web").pid is None and b.status("web").shown == url
            assert all(headers["x-key"] == "k" for headers in peer.headers)
            assert all("accept-encoding" not in h or h["accept-encoding"] == "identity" for h in peer.headers)
            probes = [h for h in peer.headers if h.get("mcp-method") == "server/discover"]
            assert len(probes) == 1

    run(main())


def test_mcp_50_an_old_server_at_the_same_address_is_found(tmp_path: Path) -> None:
    """400, 404 or 405 to the handshake lead to HTTP+SSE, and what was found out is kept."""

    async def main() -> None:
        peer = Peer("echo")
        async with peer.sse() as url, bench(tmp_path, {"a": {"url": url, "type": "http"}, "b": {"url": url}}) as b:
            assert await b.text("a.echo") == "echo {}" and await b.text("b.echo") == "echo {}"
            assert b.status("a").protocol == "2025-11-25"
            b.clock.now += 10_000
            await until(lambda: b.status("a").state is ServerState.IDLE)
            assert await b.text("a.echo") == "echo {}"

    run(main())


def test_mcp_58_a_lost_session_is_made_anew_once_for_a_call(tmp_path: Path) -> None:
    async def main() -> None:
        peer = Peer("echo")
        async with peer.http(legacy=True) as url, bench(tmp_path, {"web": {"url": url}}) as b:
            assert await b.text("web.echo") == "echo {}"
            for session in list(peer.manager._server_instances.values()):
                await session.terminate()
            peer.manager._server_instances.clear()
            assert await b.text("web.echo") == "echo {}"
            assert [name for name, _ in peer.calls] == ["echo", "echo"]

    run(main())


def test_p92_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = Peer("echo"), Peer("echo")
        ports: list[Callable[..., Awaitable[None]]] = []

        async def front(scope: Any, receive: Any, send: Any) -> None:
            if not ports:
                await answer(send, 503, b"restarting")
            else:
                await ports[0](scope, receive, send)

        async with serving(front) as url, first.app(legacy=True) as one, second.app(legacy=True) as two:
            ports[:] = [one]
            async with bench(tmp_path, {"web": {"url": f"{url}/mcp"}}) as b:
                assert await b.text("web.echo") == "echo {}"
                ports.clear()
                result = await b.call("web.echo")
                assert result.error_kind is ErrorKind.EXECUTION and "503" in result.message
                ports[:] = [two]
                assert await b.text("web.echo") == "echo {}"
                assert len(first.calls) == len(second.calls) == 1

    run(main())


def test_progress_and_concurrent_calls_over_http(tmp_path: Path) -> None:
    async def main() -> None:
        peer = Peer("work", "slow")
        go = asyncio.Event()

        async def work(context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
            await context.session.report_progress(0.5, 1, "half")
            return text("done")

        async def slow(context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
            await go.wait()
            return text("slow")

        peer.work = {"work": work, "slow": slow}
        async with peer.http() as url, bench(tmp_path, {"web": {"url": url}}) as b:
            slowly = asyncio.ensure_future(b.text("web.slow"))
            assert await b.text("web.work") == "done"
            assert [(event.progress, event.message) for event in b.progress] == [(0.5, "half")]
            go.set()
            assert await slowly == "slow"

    run(main())


@pytest.mark.parametrize("legacy", [True, False])
def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path, legacy: bool) -> None:
    async def main() -> None:
        peer = Peer("slow")
        begun, ended = asyncio.Event(), asyncio.Event()

        async def slow(context: Any, arguments: dict[str, Any]) -> types.CallToolResult:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
            return text("never")

        peer.work = {"slow": slow}
        async with peer.http(legacy=legacy) as url, bench(tmp_path, {"web": {"url": url}}) as b:
            calling = asyncio.ensure_future(b.call("web.slow"))
            await begun.wait()
            calling.cancel()
            await asyncio.wait({calling})
            await asyncio.wait_for(ended.wait(), 10)

    run(main())


def test_mcp_56_marked_arguments_are_headers_and_a_tool_with_a_bad_mark_is_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        peer = Peer("good", "bad")
        peer.schemas = {
            "good": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
            "bad": {"type": "object", "properties": {"region": {"type": "object", "x-mcp-header": "Bad Name"}}},
        }
        async with peer.http() as url, bench(tmp_path, {"web": {"url": url}}) as b:
            assert b.names() == ["web.good"]
            assert (await b.call("web.good", region="中")).ok
            headers = peer.headers[-1]
            assert headers["mcp-name"] == "good" and headers["mcp-param-region"].startswith("=?base64?")

    run(main())


def test_mcp_54_pages_are_followed_and_there_is_an_end_to_them(tmp_path: Path) -> None:
    async def main() -> None:
        peer = Peer(*(f"t{number}" for number in range(25)))
        peer.page = 10
        async with peer.http() as url, bench(tmp_path, {"web": {"url": url}}) as b:
            assert b.names() == [f"web.t{number}" for number in range(25)]

    run(main())


# --- servers that behave badly --------------------------------------------------------------------------------------


Handler = Callable[[dict[str, Any], Any], Awaitable[None]]


async def body_of(receive: Any) -> dict[str, Any]:
    data = b""
    while True:
        message = await receive()
        data += message.get("body", b"")
        if not message.get("more_body"):
            return json.loads(data) if data else {}


def raw(on_call: Handler) -> Any:
    """A legacy server without sessions whose ``tools/call`` is what a test makes of it."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await answer(send, 405, b"")
            return
        request = await body_of(receive)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "x"}]},
        }
        method = request.get("method")
        if method == "tools/call":
            await on_call(request, send)
        elif method in results:
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": results[method]}
            await answer(send, 200, json.dumps(reply).encode(), JSON)
        elif "id" in request:
            await answer(send, 400, b"what?")
        else:
            await answer(send, 202, b"")

    return app


async def endless_stream(request: dict[str, Any], send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [STREAM]})
    note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n'
    for _ in range(MANY):
        await send({"type": "http.response.body", "body": note * 100, "more_body": True})
        await asyncio.sleep(0.001)


async def endless_event(request: dict[str, Any], send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [STREAM]})
    for _ in range(MANY):
        await send({"type": "http.response.body", "body": b"data: " + b"x" * 65536, "more_body": True})
        await asyncio.sleep(0)


async def endless_body(request: dict[str, Any], send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
    for _ in range(MANY):
        await send({"type": "http.response.body", "body": b" " * 65536, "more_body": True})
        await asyncio.sleep(0)


async def trickle(request: dict[str, Any], send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
    for _ in range(MANY):
        await send({"type": "http.response.body", "body": b" ", "more_body": True})
        await asyncio.sleep(0.01)


async def many_values(request: dict[str, Any], send: Any) -> None:
    await answer(send, 200, b'{"jsonrpc": "2.0", "id": 1, "result": [' + b"[]," * 300_000 + b"0]}", JSON)


async def many_values_in_an_event(request: dict[str, Any], send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [STREAM]})
    await send({"type": "http.response.body", "body": b": hello\n\ndata: [" + b"[]," * 300_000, "more_body": True})
    await asyncio.sleep(60)


async def long_headers(request: dict[str, Any], send: Any) -> None:
    await answer(send, 200, b"{}", JSON, *[(b"x-%d" % number, b"y" * 60_000) for number in range(50)])


async def compressed(request: dict[str, Any], send: Any) -> None:
    await answer(send, 200, b"\x1f\x8b" + b"\0" * 100, JSON, (b"content-encoding", b"gzip"))


async def no_json(request: dict[str, Any], send: Any) -> None:
    await answer(send, 200, b"{oops", JSON)


async def a_page(request: dict[str, Any], send: Any) -> None:
    await answer(send, 200, b"<html>", (b"content-type", b"text/html"))


async def broken_off(request: dict[str, Any], send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [JSON, (b"content-length", b"100")]})
    await send({"type": "http.response.body", "body": b"{", "more_body": True})
    raise ConnectionResetError


async def refused(request: dict[str, Any], send: Any) -> None:
    await answer(send, 500, b"Traceback: secret" * 10_000)


async def elsewhere(request: dict[str, Any], send: Any) -> None:
    await answer(send, 307, b"", (b"location", b"http://127.0.0.1:1/steal"))


async def of_another(request: dict[str, Any], send: Any) -> None:
    reply = {"jsonrpc": "2.0", "id": request["id"], "result": {"content": "text", "isError": None}}
    await answer(send, 200, json.dumps(reply).encode(), JSON)


@pytest.mark.parametrize(
    ("handler", "kind", "told"),
    [
        (endless_stream, ErrorKind.TIMEOUT, ""),
        (endless_event, ErrorKind.EXECUTION, "SSE"),
        (endless_body, ErrorKind.PLUGIN, "1 MiB"),
        (trickle, ErrorKind.TIMEOUT, ""),
        (many_values, ErrorKind.PLUGIN, "250000"),
        (many_values_in_an_event, ErrorKind.EXECUTION, "SSE"),
        (long_headers, ErrorKind.EXECUTION, ""),
        (compressed, ErrorKind.PLUGIN, "gzip"),
        (no_json, ErrorKind.PLUGIN, "JSON"),
        (a_page, ErrorKind.PLUGIN, "text/html"),
        (broken_off, ErrorKind.PLUGIN, ""),
        (refused, ErrorKind.EXECUTION, "500"),
        (elsewhere, ErrorKind.PLUGIN, "not followed"),
    ],
)
def test_a_bad_answer_costs_its_call_and_nothing_else(
    tmp_path: Path, handler: Handler, kind: ErrorKind, told: str
) -> None:
    async def main() -> None:
        bad = True

        async def on_call(request: dict[str, Any], send: Any) -> None:
            await (handler if bad else of_another)(request, send)

        limits = ServerLimits(connect_seconds=20, call_seconds=0.4, call_max_seconds=0.4, result_bytes=1024 * 1024)
        if kind is not ErrorKind.TIMEOUT:
            limits = ServerLimits(connect_seconds=20, call_seconds=20, result_bytes=1024 * 1024)
        async with serving(raw(on_call)) as url, bench(tmp_path, {"web": {"url": url}}, limits=limits) as b:
            result = await b.call("web.x")
            assert result.error_kind is kind and told in result.message, result.message
            assert "\n" not in result.message and len(result.message) < 3_000 and "secret" not in result.message
            bad = False
            assert await b.text("web.x") == "text"

    run(main())


@pytest.mark.parametrize(("status", "later"), [(401, 401), (403, 403), (401, 400)])
def test_a_server_that_wants_a_sign_in_is_told_as_such(tmp_path: Path, status: int, later: int) -> None:
    """A server of the newest revision refuses ``initialize``, which comes after the probe, for what it is."""

    async def main() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            probe = (b"mcp-method", b"server/discover") in scope["headers"]
            await answer(send, status if probe else later, b"who are you?")

        async with serving(app) as url, bench(tmp_path, {"web": {"url": url}}) as b:
            found = b.status("web")
            assert found.state is ServerState.SIGN_IN and str(status) in found.error
            assert "who are you?" in found.details

    run(main())


def test_an_address_where_nobody_is_is_told_in_one_line(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(
            tmp_path, {"web": {"url": "http://127.0.0.1:9/mcp"}, "old": {"url": "http://127.0.0.1:9/sse"}}
        ) as b:
            for name in ("web", "old"):
                assert b.status(name).state is ServerState.FAILED and b.status(name).error

    run(main())


def test_a_server_that_never_answers_ends_in_time(tmp_path: Path) -> None:
    async def main() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await asyncio.sleep(60)

        async with serving(app) as url:
            servers = {"web": {"url": url, "connectSeconds": 0.3}, "old": {"url": f"{url}/sse", "connectSeconds": 0.3}}
            async with bench(tmp_path, servers, probe_seconds=0.1) as b:
                assert "0.3" in b.status("web").error and "0.3" in b.status("old").error

    run(main())


def test_certificates_are_read_once_and_not_in_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[threading.Thread] = []
    read = httpx2.create_ssl_context

    def counted(*words: Any, **options: Any) -> Any:
        readers.append(threading.current_thread())
        return read(*words, **options)

    monkeypatch.setattr(httpx2, "create_ssl_context", counted)

    async def main() -> None:
        async with serving(raw(of_another)) as url, bench(tmp_path, {"a": {"url": url}, "b": {"url": url}}) as b:
            assert [await b.text("a.x"), await b.text("b.x")] == ["text", "text"]

    run(main())
    assert len(readers) == 1 and readers[0] is not threading.main_thread()


def test_certificates_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))

    async def main() -> None:
        async with bench(tmp_path, {"web": {"url": "https://127.0.0.1:1/mcp"}}) as b:
            assert "certificates" in b.status("web").error

    run(main())
