"""What a WebSocket passes before it is open: handshake, address, path, key, limits (6.1; B5, B15, D63, D64)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from app.errors import ForbiddenError
from app.extend import SocketRequest
from app.web import socket_gate
from app.web.blocking import KEY_FAILURES
from app.web.server import serve
from tests.hub.clients import SOCKET_KEY
from tests.server import HEADERS, run, running
from tests.web.sockets import HEAD, KEY, LOOPS, Raw, Site, frame, raw, run_on, site, until

UPSTREAM = "http://127.0.0.1:9"


def status(head: bytes) -> int:
    return int(head.split()[1])


async def answer(place: Site, **how: Any) -> tuple[int, bytes]:
    """Status and body of the answer to a handshake."""
    async with raw(place, handshake=False) as client:
        head = await client.handshake(**how)
        return status(head), b"" if status(head) == 101 else await client.reader.read()


# ---------------------------------------------------------------- handshakes that are none


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("line", "more", "expected"),
    [
        ("GET {} HTTP/1.0", "", 505),
        ("POST {} HTTP/1.1", "", 405),
        ("POST {} HTTP/1.1", "Content-Length: 0\r\n", 405),
        ("HEAD {} HTTP/1.1", "", 405),
        ("GET {} HTTP/1.1", "Sec-WebSocket-Version: 8\r\n", 400),
        ("GET {} HTTP/1.1", "Sec-WebSocket-Protocol: a b, c\r\n", 400),
        ("GET {} HTTP/1.1", "Origin: http://a\r\nOrigin: http://b\r\n", 400),
        ("GET {} HTTP/1.1", "".join(f"X-{number}: y\r\n" for number in range(200)), 431),
        ("GET {} HTTP/1.1", f"X-Long: {'y' * 9000}\r\n", 431),
    ],
)
def test_a_broken_handshake_is_answered_and_hung_up_on(
    loop: str, tmp_path: Path, line: str, more: str, expected: int
) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            got, _ = await answer(place, line=line, more=more)
            assert got == expected
            assert place.handlers == []

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("more", ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"])
def test_a_handshake_with_a_body_is_hung_up_on(loop: str, tmp_path: Path, more: str) -> None:
    """The library gives no answer here; without care the connection would stay for ever, without any key."""

    async def main() -> None:
        async with site(tmp_path) as place, raw(place, handshake=False) as client:
            client.writer.write(f"POST /s HTTP/1.1\r\n{HEAD}{more}\r\nhello".encode())
            await asyncio.wait_for(client.reader.read(), 5)
            assert place.handlers == []

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_handshake_behind_a_request_that_runs_ends_both(loop: str, tmp_path: Path) -> None:
    """Two protocols on one line: the request would never hear that its client is gone."""

    async def main() -> None:
        heard = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                while (await receive())["type"] != "http.disconnect":
                    pass
                heard.set()
                return
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})

        async with serve(app) as url, raw(Site(url), handshake=False) as client:
            client.writer.write(
                f"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /s/VCP_Key={KEY} HTTP/1.1\r\n{HEAD}\r\n".encode()
            )
            await heard.wait()
            await client.end()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_path_without_end_is_refused(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            got, _ = await answer(place, path="/s/VCP_Key=" + "x" * 20_000)
            assert got == 414

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_sent_before_the_answer_is_kept_or_cut(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            async with raw(place, handshake=False) as client:
                assert status(await client.handshake()) == 101
                await client.send(frame("hello"))
                await until(lambda: place.last.texts == ["hello"])
            async with raw(place, handshake=False) as client:
                await client.handshake(path="/s", behind=frame("x" * 200_000))
                await client.end()
            assert len(place.handlers) == 1
            assert place.traffic.incoming == 0

    run_on(loop, main())


# ---------------------------------------------------------------- keys


ODD_KEYS = ["a/b/c", "50%25", "%2F", "密钥/钥匙?", "a=b&c", "VCP_Key=x", "key with blank", "é", "~'\"\\"]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_of_any_characters_open_in_every_way(tmp_path: Path, key: str) -> None:
    async def main() -> None:
        async with site(tmp_path, keys=lambda: ("first", key, "last")) as place:
            sent = key.encode()
            ways: list[dict[str, Any]] = [{"path": f"/s/VCP_Key={quote(key, safe='')}"}]
            if key.isascii() and " " not in key:  # others cannot stand in a request as they are
                ways.append({"path": b"/s/VCP_Key=" + sent})  # the very bytes, as B5 wants
            encoded = base64.urlsafe_b64encode(sent).decode().rstrip("=")
            ways.append({"path": "/s", "more": f"Sec-WebSocket-Protocol: vcp, vcp-key.{encoded}\r\n"})
            ways.append({"path": "/s", "more": f"Authorization: bearer  {key}\r\n"})
            for way in ways:
                got, body = await answer(place, **way)
                assert got == 101, (way, body)
            for wrong in ("/s/VCP_Key=", "/s/VCP_Key=x", f"/s/VCP_Key={quote(key, safe='')}x", "/S/VCP_Key=first"):
                got, body = await answer(place, path=wrong)
                assert got in (401, 404)
                assert "error" in json.loads(body)

    run_on("uvloop", main())


def test_the_answer_names_a_subprotocol_that_is_no_key(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            encoded = "vcp-key." + base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("=")
            for offered, chosen in ((f"{encoded}, chat", b"chat"), (f"{encoded}, vcp", b"vcp"), (KEY, KEY.encode())):
                async with raw(place, handshake=False) as client:
                    head = await client.handshake(path="/s", more=f"Sec-WebSocket-Protocol: {offered}\r\n")
                    assert b"sec-websocket-protocol: " + chosen in head.lower()

    run_on("uvloop", main())


def test_of_many_subprotocols_only_the_first_are_tried(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            wrong = ["x"] * (socket_gate.SUBPROTOCOLS - 1)
            for offered, expected in (([*wrong, KEY], 101), ([*wrong, "x", KEY], 401)):
                more = f"Sec-WebSocket-Protocol: {', '.join(offered)}\r\n"
                assert (await answer(place, path="/s", more=more))[0] == expected

    run_on("uvloop", main())


def test_no_candidate_is_left_out_of_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B5: how long a refusal takes tells nothing of which key was nearly right."""
    compared: list[bytes] = []
    compare = socket_gate.hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return compare(one, other)

    async def main() -> None:
        async with site(tmp_path, keys=lambda: ("a", "b", "c")) as place:
            counts = []
            for given in ("a", "c", "wrong"):
                compared.clear()
                await answer(place, path=f"/s/VCP_Key={given}")
                counts.append(len(compared))
            assert counts == [6, 6, 6]

    monkeypatch.setattr(socket_gate.hmac, "compare_digest", counting)
    run_on("uvloop", main())


def test_an_empty_key_opens_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path, keys=lambda: ("",)) as place:
            for way in ({"path": "/s/VCP_Key="}, {"path": "/s"}, {"path": "/s", "more": "Authorization: Bearer \r\n"}):
                assert (await answer(place, **way))[0] in (401, 404)

    run_on("uvloop", main())


def test_a_page_of_another_site_gets_nowhere_without_a_key_and_in_with_it(tmp_path: Path) -> None:
    """D64: a right key is never refused for its Origin; without one a page cannot ride on somebody's browser."""

    async def main() -> None:
        async with site(tmp_path) as place:
            more = "Origin: https://evil.example\r\nCookie: session=1\r\n"
            assert (await answer(place, path="/s", more=more))[0] == 401
            assert (await answer(place, more=more))[0] == 101
            assert place.last.request is not None
            assert place.last.request.origin == "https://evil.example"

    run_on("uvloop", main())


# ---------------------------------------------------------------- limits and faults


def test_the_limit_of_connections_counts_those_whose_line_is_still_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            place.connections = 2
            async with raw(place), raw(place):
                got, body = await answer(place)
                assert got == 503
                assert "error" in json.loads(body)
            while (await answer(place))[0] != 101:
                pass

    run_on("uvloop", main())


def test_nobody_comes_in_while_the_server_stops(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            place.stopping = True
            assert (await answer(place))[0] == 503

    run_on("uvloop", main())


@pytest.mark.parametrize(("fault", "expected"), [(ForbiddenError("no"), 403), (KeyError("a fault"), 500)])
def test_who_serves_may_refuse_and_a_fault_of_his_is_told(
    tmp_path: Path, fault: Exception, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        def accept(_request: SocketRequest) -> Any:
            raise fault

        async with site(tmp_path) as place:
            place.accept = accept
            got, body = await answer(place)
            assert got == expected
            assert "error" in json.loads(body)

    run_on("uvloop", main())
    assert ("could not be served" in caplog.text) == (expected == 500)


def test_query_parameters_reach_who_serves_and_too_many_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            assert (await answer(place, path=f"/s/VCP_Key={KEY}?a=1&a=2&b=%E5%AD%97&c"))[0] == 101
            assert place.last.request is not None
            assert place.last.request.query == {"a": "1", "b": "字"}
            many = "&".join(f"p{number}=1" for number in range(100))
            assert (await answer(place, path=f"/s/VCP_Key={KEY}?{many}"))[0] == 400

    run_on("uvloop", main())


# ---------------------------------------------------------------- addresses, and what logs may know


def test_an_address_that_tries_keys_is_blocked_also_behind_a_proxy(tmp_path: Path) -> None:
    """B15, B7: the address is the client's own, not the proxy's."""

    async def main() -> None:
        config = (f"VCP_Key={SOCKET_KEY}", "IpBlacklist=true", "TrustedProxies=127.0.0.1")
        async with running(tmp_path, UPSTREAM, config=config) as server:
            place = Site(server.url)
            guilty, other = "X-Forwarded-For: 203.0.113.5\r\n", "X-Forwarded-For: 203.0.113.6\r\n"
            for number in range(KEY_FAILURES):
                assert (await answer(place, path=f"/VCPlog/VCP_Key=wrong-{number}", more=guilty))[0] == 401
            assert (await answer(place, path=f"/VCPlog/VCP_Key={SOCKET_KEY}", more=guilty))[0] == 403
            assert (await answer(place, path=f"/VCPlog/VCP_Key={SOCKET_KEY}", more=other))[0] == 101

    run(main())


def test_a_client_that_comes_again_and_again_with_its_old_key_blocks_nobody(tmp_path: Path) -> None:
    """P71: it connects again by itself, and whoever shares its address goes on to work."""

    async def main() -> None:
        config = (f"VCP_Key={SOCKET_KEY}", "TrustedProxies=127.0.0.1")
        async with running(tmp_path, UPSTREAM, config=config) as server:
            place, theirs = Site(server.url), "X-Forwarded-For: 203.0.113.5\r\n"
            for number in range(2 * KEY_FAILURES):
                path = ("/VCPlog", "/vcpinfo", "/vcp-distributed-server")[number % 3]
                assert (await answer(place, path=f"{path}/VCP_Key=old-key", more=theirs))[0] == 401
            assert (await answer(place, path=f"/VCPlog/VCP_Key={SOCKET_KEY}", more=theirs))[0] == 101

    run(main())


LOG_KEY = "se/cret%41-qwx"


def test_keys_are_in_no_log_at_any_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B5: however a key comes, right or wrong, also on plain HTTP and with every library's log on."""

    async def main() -> None:
        caplog.set_level(logging.DEBUG)
        for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets", "websockets.server", "asyncio"):
            caplog.set_level(logging.DEBUG, name)
        async with running(tmp_path, UPSTREAM, config=(f"VCP_Key={LOG_KEY}", "DebugMode=true")) as server:
            place = Site(server.url)
            encoded = base64.urlsafe_b64encode(LOG_KEY.encode()).decode().rstrip("=")
            plain, quoted = (
                b"/VCPlog/VCP_Key=" + LOG_KEY.encode(),
                f"/VCPlog/VCP_Key={quote(LOG_KEY, safe='')}".encode(),
            )
            for path in (plain, quoted, plain + b"x", plain.replace(b"VCPlog", b"vcplog"), plain + b"?q=1"):
                assert (await answer(place, path=path))[0] in (101, 401, 404)
                await answer(place, path=path, line="POST {} HTTP/1.1")
                for method in ("GET", "POST", "HEAD", "PUT"):
                    async with raw(place, handshake=False) as client:
                        client.writer.write(
                            f"{method} ".encode() + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                        )
                        assert status(await client.reader.read()) in (401, 404, 405)
            for more in (f"Authorization: Bearer {LOG_KEY}\r\n", f"Sec-WebSocket-Protocol: vcp-key.{encoded}\r\n"):
                assert (await answer(place, path="/VCPlog", more=more))[0] == 101
            await server.client.post(f"//VCPlog//VCP_Key={LOG_KEY}/", headers=HEADERS)

    run(main())
    logged = "\n".join(
        f"{record.getMessage()} {record.exc_text or ''} {record.args!r}"
        for record in caplog.records
        if not record.name.startswith(("httpx", "httpcore"))  # the client of this test
    )
    assert "VCPlog" in logged
    for secret in ("cret", "%41", "%2541", "qwx", base64.urlsafe_b64encode(LOG_KEY.encode()).decode()[:12]):
        assert secret not in logged


def test_the_log_of_an_open_socket_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=(f"VCP_Key={SOCKET_KEY}",)) as server:
            client = Raw(*await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2])))
            await client.handshake(f"/VCPlog/VCP_Key={SOCKET_KEY}")
            client.writer.transport.abort()
            await until(lambda: "is gone (1006)" in caplog.text)

    caplog.set_level(logging.INFO)
    run(main())
