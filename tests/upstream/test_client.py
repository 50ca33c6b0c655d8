"""Requests to model APIs over real sockets (spec 1.4, 1.5, 4.10; P22-P37)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app import __version__
from app.errors import UpstreamBrokenError, UpstreamConnectError, UpstreamStatusError, UpstreamTimeoutError
from app.upstream.limits import ERROR_BODY_BYTES, UpstreamLimits
from app.upstream.retry import RetryPolicy
from tests.upstream.wire_server import CHUNKED, Naps, Peer, answer, ask, chunk, client_of, serving

DATA = b'data: {"choices":[]}\n\n'
STREAM = CHUNKED + chunk(DATA) + b"0\r\n\r\n"
KEY = "sk-secret-of-the-test"


def always(data: bytes) -> Callable[[Peer], Awaitable[None]]:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(data)

    return script


def in_turn(*answers: bytes) -> Callable[[Peer], Awaitable[None]]:
    """Answers the n-th request, over all connections, with the n-th text; the last one again and again."""
    left = list(answers)

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(left.pop(0) if len(left) > 1 else left[0])

    return script


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_a_streamed_chat_sends_the_body_byte_for_byte_with_our_headers() -> None:
    async def scene() -> None:
        async with serving(always(STREAM)) as server, client_of(server.url) as client:
            body = '{"model":"m","stream":true,"foo":1,"x":"「始」"}'.encode()
            reply = await client.chat(body, model="m", stream=True, user_agent="Client/1", accept="application/json")
            assert await reply.read_all(1000) == DATA
            await reply.close()
            (request,) = server.requests
            assert request.line == "POST /v1/chat/completions HTTP/1.1"
            assert request.body == body
            sent = {name.lower(): value for name, value in request.headers}
            assert sent == {
                "host": server.url.removeprefix("http://"),
                "content-type": "application/json",
                "authorization": f"Bearer {KEY}",
                "user-agent": "Client/1",
                "accept": "text/event-stream",
                "accept-encoding": "identity",
                "content-length": str(len(body)),
            }

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("accept", "sent"), [(None, "application/json"), ("*/*", "*/*"), ("application/x", "application/x")]
)
def test_a_plain_chat_sends_the_accept_of_the_client_or_json(accept: str | None, sent: str) -> None:
    async def scene() -> None:
        async with serving(always(answer(200))) as server, client_of(server.url) as client:
            async with await client.chat(b"{}", model="m", stream=False, accept=accept) as reply:
                assert await reply.read_all(100) == b"{}"
            (request,) = server.requests
            assert request.header("Accept") == sent
            assert request.header("User-Agent") == f"vcp-server/{__version__}"

    asyncio.run(scene())


def test_without_a_key_no_authorization_is_sent() -> None:
    async def scene() -> None:
        async with serving(always(answer(200))) as server, client_of(server.url, key="") as client:
            await ask(client)
            assert server.requests[0].header("Authorization") is None

    asyncio.run(scene())


def test_a_message_of_12_mb_goes_through(recwarn: pytest.WarningsRecorder) -> None:
    async def scene() -> None:
        async with serving(always(answer(200))) as server, client_of(server.url) as client:
            body = b'{"x":"' + b"0123456789abcdef" * 786_432 + b'"}'
            await ask(client, body)
            assert server.requests[0].body == body
            assert server.requests[0].header("Transfer-Encoding") is None

    asyncio.run(scene())
    assert not list(recwarn)


# --- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_passing_faults_are_tried_again_after_growing_waits(status: int) -> None:
    async def scene() -> None:
        naps = Naps()
        async with (
            serving(in_turn(answer(status), answer(status), STREAM)) as server,
            client_of(server.url, naps=naps) as client,
        ):
            assert await ask(client) == DATA
            assert len(server.requests) == 3
            assert naps.waits == [0.1, 0.2]

    asyncio.run(scene())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501, 201])
def test_a_fault_of_the_request_is_asked_once_and_keeps_its_status(status: int, stream: bool) -> None:
    async def scene() -> None:
        naps = Naps()
        body = b'{"error":{"message":"no such key"}}'
        async with serving(always(answer(status, body))) as server, client_of(server.url, naps=naps) as client:
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client, stream=stream)
            error = caught.value
            assert (error.upstream_status, error.body, error.content_type) == (status, body, "application/json")
            assert (error.attempts, error.exhausted) == (1, False)
            assert len(server.requests) == 1
            assert naps.waits == []

    asyncio.run(scene())


def test_an_upstream_that_always_answers_429_is_asked_as_often_as_set() -> None:
    async def scene() -> None:
        naps = Naps()
        async with (
            serving(always(answer(429, b"slow down"))) as server,
            client_of(server.url, naps=naps, policy=RetryPolicy(2, 50)) as client,
        ):
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client)
            assert (caught.value.upstream_status, caught.value.attempts, caught.value.exhausted) == (429, 2, True)
            assert "slow down" in str(caught.value)
            assert len(server.requests) == 2
            assert naps.waits == [0.05]

    asyncio.run(scene())


def test_a_longer_retry_after_is_waited_for() -> None:
    async def scene() -> None:
        naps = Naps()
        script = in_turn(
            answer(429, b"", "Retry-After: 7"),
            answer(503, b"", "Retry-After: Thu, 01 Jan 1970 00:01:10 GMT"),
            STREAM,
        )
        async with serving(script) as server, client_of(server.url, naps=naps, clock=lambda: 50.0) as client:
            assert await ask(client) == DATA
            assert naps.waits == [7.0, 20.0]

    asyncio.run(scene())


def test_a_retry_after_of_more_than_a_minute_gives_the_429_at_once() -> None:
    async def scene() -> None:
        naps = Naps()
        async with (
            serving(always(answer(429, b"tomorrow", "Retry-After: 61"))) as server,
            client_of(server.url, naps=naps) as client,
        ):
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client)
            error = caught.value
            assert (error.upstream_status, error.retry_after, error.exhausted) == (429, 61.0, False)
            assert naps.waits == []

    asyncio.run(scene())


def test_html_of_a_gateway_names_the_status_after_the_retries() -> None:
    async def scene() -> None:
        page = b"<html>502 Bad Gateway</html>"
        async with serving(always(answer(502, page, kind="text/html"))) as server, client_of(server.url) as client:
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client)
            assert "status 502" in str(caught.value)
            assert (caught.value.body, caught.value.content_type) == (page, "text/html")
            assert len(server.requests) == 3

    asyncio.run(scene())


@pytest.mark.parametrize("before", [b"", CHUNKED, CHUNKED + b"5\r\nab"[:3]], ids=["no byte", "headers", "a size"])
def test_a_connection_that_breaks_before_the_first_byte_is_tried_again(before: bytes) -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            if peer.number < 3:
                await peer.send(before)
                return  # closes
            await peer.send(STREAM)
            await peer.closed_by_client()

        naps = Naps()
        async with serving(script) as server, client_of(server.url, naps=naps) as client:
            assert await ask(client) == DATA
            assert len(server.peers) == 3
            assert naps.waits == [0.1, 0.2]

    asyncio.run(scene())


def test_a_reset_instead_of_an_answer_is_tried_again_and_then_named() -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            peer.reset()

        async with serving(script) as server, client_of(server.url) as client:
            with pytest.raises(UpstreamConnectError) as caught:
                await ask(client)
            assert len(server.peers) == 3
            assert server.url.removeprefix("http://") in caught.value.message
            assert "3 attempts" in str(caught.value)

    asyncio.run(scene())


def test_nothing_is_tried_again_after_the_first_byte() -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(DATA))

        async with serving(script) as server, client_of(server.url) as client:
            async with await client.chat(b"{}", model="m", stream=True) as reply:
                assert await reply.read_some() == DATA
                with pytest.raises(UpstreamBrokenError, match="broke off"):
                    await reply.read_some()
            assert len(server.peers) == 1

    asyncio.run(scene())


def test_a_closed_port_is_named_after_all_attempts() -> None:
    async def scene() -> None:
        async with serving(always(STREAM)) as server:
            gone = server.url
        naps = Naps()
        async with client_of(gone, naps=naps) as client:
            with pytest.raises(UpstreamConnectError) as caught:
                await ask(client)
        assert gone.removeprefix("http://") in caught.value.message
        assert "API_URL" in caught.value.message
        assert KEY not in caught.value.message
        assert naps.waits == [0.1, 0.2]

    asyncio.run(scene())


def test_a_name_that_does_not_resolve_is_named() -> None:
    async def scene() -> None:
        async with client_of("http://no-such-host.invalid") as client:
            with pytest.raises(UpstreamConnectError, match=r"no-such-host\.invalid"):
                await ask(client)

    asyncio.run(scene())


# --- kept connections ------------------------------------------------------------------------------------------------


def test_a_connection_is_used_again_after_an_answer_read_to_its_end() -> None:
    async def scene() -> None:
        async with serving(always(STREAM)) as server, client_of(server.url) as client:
            for _ in range(3):
                assert await ask(client) == DATA
            assert len(server.peers) == 1
            assert len(server.requests) == 3

    asyncio.run(scene())


def test_a_connection_is_used_again_after_an_error_answer() -> None:
    async def scene() -> None:
        async with serving(in_turn(answer(500), STREAM)) as server, client_of(server.url) as client:
            assert await ask(client) == DATA
            assert len(server.peers) == 1

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_kept_connection_that_the_upstream_closes_costs_neither_an_attempt_nor_a_wait(how: str) -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(STREAM)
            await peer.request()
            if peer.number == 1:
                if how == "reset":
                    peer.reset()
                return
            await peer.send(STREAM)

        naps = Naps()
        async with (
            serving(script) as server,
            client_of(server.url, naps=naps, policy=RetryPolicy(1, 100)) as client,
        ):
            assert await ask(client) == DATA
            assert await ask(client) == DATA
            assert len(server.peers) == 2
            assert naps.waits == []

    asyncio.run(scene())


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"", CHUNKED], ids=["no byte", "headers"])
def test_a_silent_upstream_fails_in_bounded_time_and_is_not_asked_again(before: bytes) -> None:
    async def scene() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(before)
            await peer.closed_by_client()
            left.set()

        async with (
            serving(script) as server,
            client_of(server.url, limits=UpstreamLimits(first_byte=0.05)) as client,
        ):
            with pytest.raises(UpstreamTimeoutError) as caught:
                await ask(client)
            assert caught.value.phase == "first_byte"
            assert server.url.removeprefix("http://") in caught.value.message
            await left.wait()
            assert len(server.peers) == 1

    asyncio.run(scene())


def test_silence_in_mid_answer_ends_it_and_the_connection() -> None:
    async def scene() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(DATA))
            await peer.closed_by_client()
            left.set()

        async with serving(script) as server, client_of(server.url, limits=UpstreamLimits(idle=0.05)) as client:
            reply = await client.chat(b"{}", model="m", stream=True)
            assert await reply.read_some() == DATA
            with pytest.raises(UpstreamTimeoutError) as caught:
                await reply.read_some()
            assert caught.value.phase == "idle"
            await left.wait()
            with pytest.raises(UpstreamTimeoutError):
                await reply.read_some()
            await reply.close()

    asyncio.run(scene())


def test_a_connection_that_does_not_come_about_is_tried_again_and_named() -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.closed_by_client()  # the TLS greeting is never answered

        async with (
            serving(script) as server,
            client_of(server.url.replace("http:", "https:"), limits=UpstreamLimits(connect=0.05)) as client,
        ):
            with pytest.raises(UpstreamTimeoutError) as caught:
                await ask(client)
            assert caught.value.phase == "connect"
            assert len(server.peers) == 3

    asyncio.run(scene())


# --- cancelling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"", CHUNKED, CHUNKED + chunk(DATA)], ids=["no byte", "headers", "in mid answer"])
def test_cancelling_closes_the_connection_so_that_the_upstream_notices(before: bytes) -> None:
    async def scene() -> None:
        asked, left = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(before)
            asked.set()
            await peer.closed_by_client()
            left.set()

        async with serving(script) as server, client_of(server.url) as client:
            task = asyncio.create_task(ask(client))
            await asked.wait()
            for _ in range(10):  # let the client take what was sent
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await left.wait()

    asyncio.run(scene())


def test_closing_an_unread_reply_drops_the_connection_and_may_be_repeated() -> None:
    async def scene() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(DATA))
            await peer.closed_by_client()
            left.set()

        async with serving(script) as server, client_of(server.url) as client:
            reply = await client.chat(b"{}", model="m", stream=True)
            await reply.close()
            await reply.close()
            await left.wait()
            with pytest.raises(UpstreamBrokenError, match="closed on our side"):
                await reply.read_some()

    asyncio.run(scene())


def test_cancelling_the_wait_before_another_attempt_ends_it() -> None:
    async def scene() -> None:
        resting = asyncio.Event()

        async def sleep(seconds: float) -> None:
            resting.set()
            await asyncio.Event().wait()

        async with serving(always(answer(503))) as server, client_of(server.url, naps=sleep) as client:
            task = asyncio.create_task(ask(client))
            await resting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(server.requests) == 1

    asyncio.run(scene())


# --- errors ----------------------------------------------------------------------------------------------------------


def test_a_redirect_is_not_followed_and_is_explained() -> None:
    async def scene() -> None:
        async with (
            serving(always(answer(301, b"", "Location: https://u:pw@other.example/v1/chat"))) as server,
            client_of(server.url) as client,
        ):
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client)
            assert caught.value.upstream_status == 301
            assert b"other.example" in caught.value.body
            assert b"API_URL" in caught.value.body
            assert b"pw" not in caught.value.body
            assert len(server.requests) == 1

    asyncio.run(scene())


def test_an_error_body_is_read_to_a_limit() -> None:
    async def scene() -> None:
        async with (
            serving(always(answer(400, b"x" * (ERROR_BODY_BYTES + 5)))) as server,
            client_of(server.url) as client,
        ):
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client)
            assert len(caught.value.body) == ERROR_BODY_BYTES

    asyncio.run(scene())


def test_an_error_body_that_breaks_off_keeps_the_status() -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(answer(400, b"half of it")[:-5])

        async with serving(script) as server, client_of(server.url) as client:
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client)
            assert caught.value.upstream_status == 400
            assert caught.value.body == b"half "

    asyncio.run(scene())


def test_an_error_that_quotes_the_key_does_not_hand_it_on() -> None:
    async def scene() -> None:
        async with (
            serving(always(answer(401, f"wrong key {KEY}".encode()))) as server,
            client_of(server.url) as client,
        ):
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client)
            assert caught.value.body == b"wrong key ***"

    asyncio.run(scene())


def test_a_peer_that_speaks_no_http_is_named_and_not_asked_again() -> None:
    async def scene() -> None:
        async with serving(always(b"SSH-2.0-OpenSSH_9\r\n\r\n")) as server, client_of(server.url) as client:
            with pytest.raises(UpstreamBrokenError, match="API_URL"):
                await ask(client)
            assert len(server.peers) == 1

    asyncio.run(scene())


def test_a_client_that_is_not_started_says_so() -> None:
    async def scene() -> None:
        async with client_of("http://127.0.0.1:9") as client:
            await client.stop()
            with pytest.raises(UpstreamConnectError, match="starts or stops"):
                await ask(client)

    asyncio.run(scene())


def test_cancelling_a_large_request_that_the_upstream_does_not_take_drops_it() -> None:
    async def scene() -> None:
        connected, go, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream transport can
            connected.set()
            await go.wait()
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]  # a stream transport can
            await peer.closed_by_client()
            left.set()

        async with serving(script) as server, client_of(server.url) as client:
            asking = asyncio.create_task(ask(client, b"x" * (64 << 20)))
            await connected.wait()
            for _ in range(50):
                await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            go.set()
            await left.wait()

    asyncio.run(scene())


@pytest.mark.parametrize("url", ["http://a..b", f"http://{'a' * 70}.example", "http://[fe80::1%25]:1"])
def test_a_host_that_cannot_exist_is_a_clear_error(url: str) -> None:
    async def scene() -> None:
        async with client_of(url) as client:
            with pytest.raises(UpstreamConnectError, match="API_URL"):
                await ask(client)

    asyncio.run(scene())


def test_a_header_that_cannot_be_sent_is_a_clear_error_without_the_key() -> None:
    async def scene() -> None:
        async with serving(always(STREAM)) as server, client_of(server.url, key="secret\r\nX: y") as client:
            with pytest.raises(UpstreamConnectError, match="API_Key") as caught:
                await ask(client)
            assert "secret" not in caught.value.message
            assert server.requests == []

    asyncio.run(scene())


def test_each_retry_is_logged_with_host_and_cause_and_without_the_key(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> str:
        async with serving(in_turn(answer(503), STREAM)) as server, client_of(server.url) as client:
            assert await ask(client) == DATA
            return server.url.removeprefix("http://")

    host = asyncio.run(scene())
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("app.")]
    assert host in line
    assert "status 503" in line
    assert "attempt 1 of 3" in line
    assert KEY not in caplog.text
