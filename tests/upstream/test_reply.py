"""Reading answers over real sockets (spec 4.7, P24, P25, P29, P33)."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from app.errors import UpstreamBrokenError, UpstreamConnectError, UpstreamStatusError, UpstreamTimeoutError
from app.upstream.limits import UpstreamLimits
from tests.upstream.wire_server import CHUNKED, Peer, answer, ask, chunk, client_of, serving

TEXT = 'data: {"choices":[{"delta":{"content":"「汉😀」"}}]}\n\n'.encode()
FOR_EVER = 1e9


async def spin() -> None:
    """Let everything that is ready run."""
    for _ in range(50):
        await asyncio.sleep(0)


def once(data: bytes) -> Callable[[Peer], Awaitable[None]]:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)

    return script


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock a test can put forward."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


async def skip(seconds: float) -> None:
    await spin()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop)
    loop.skipped += seconds
    await spin()


def run_skipping(scene: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        runner.run(scene)


def test_an_answer_torn_after_every_byte_is_read_whole() -> None:
    whole = CHUNKED + chunk(TEXT) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    async def scene() -> None:
        async def script(peer: Peer) -> None:
            while await peer.request():
                for at in range(len(whole)):
                    await peer.send(whole[at : at + 1])
                    await asyncio.sleep(0)

        async with serving(script) as server, client_of(server.url) as client:
            assert await ask(client) == TEXT + b"data: [DONE]\n\n"
            assert await ask(client) == TEXT + b"data: [DONE]\n\n"

    asyncio.run(scene())


def test_pieces_arrive_as_they_are_sent_and_what_has_piled_up_comes_at_once() -> None:
    async def scene() -> None:
        go = asyncio.Semaphore(0)

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(b"one"))
            await go.acquire()
            await peer.send(chunk(b"two"))
            await go.acquire()
            await peer.send(chunk(b"three"))
            await peer.send(chunk(b"four"))
            await go.acquire()
            await peer.send(b"0\r\n\r\n")
            await peer.closed_by_client()

        async with serving(script) as server, client_of(server.url) as client:
            async with await client.chat(b"{}", model="m", stream=True) as reply:
                assert await reply.read_some() == b"one"
                go.release()
                assert await reply.read_some() == b"two"
                go.release()
                await spin()
                assert await reply.read_some() == b"threefour"
                go.release()
                assert await reply.read_some() == b""
                assert await reply.read_some() == b""
            assert await reply.read_some() == b""

    asyncio.run(scene())


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_answer_is_read_in_clear(coding: str) -> None:
    packed = gzip.compress(TEXT) if coding == "gzip" else zlib.compress(TEXT)

    async def scene() -> None:
        script = once(answer(200, packed, f"Content-Encoding: {coding}"))
        async with (
            serving(script) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=False) as reply,
        ):
            assert await reply.read_all(1000) == TEXT
            assert "Content-Encoding" not in dict(reply.end_to_end_headers())

    asyncio.run(scene())


def test_an_answer_without_length_ends_with_its_connection() -> None:
    async def scene() -> None:
        async with serving(once(b"HTTP/1.1 200 OK\r\n\r\n" + TEXT)) as server, client_of(server.url) as client:
            assert await ask(client) == TEXT

    asyncio.run(scene())


def test_an_empty_answer_ends_at_once() -> None:
    async def scene() -> None:
        async with (
            serving(once(answer(200, b""))) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=True) as reply,
        ):
            assert await reply.read_some() == b""
            assert await reply.read_all(10) == b""

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("kind", "body", "streams"),
    [
        ("text/event-stream", b"<html>", True),
        ("text/event-stream; charset=utf-8", b"", True),
        ("Text/Event-Stream;x=y", b"data: {}", True),
        ("application/json", b"[1]", False),
        ("text/plain", b"words", False),
        # The beginning of the body counts for more than its name.
        ("application/json", b"data: {}", True),
        ("text/plain", b"\xef\xbb\xbf\n\n: ping\n\n", True),
        ("", b"event: x\ndata: {}", True),
        ("text/event-stream", b' {"error": 1}', False),
    ],
)
def test_a_reply_says_whether_it_streams_whatever_was_asked_for(kind: str, body: bytes, streams: bool) -> None:
    async def scene() -> None:
        async with (
            serving(once(answer(200, body, kind=kind))) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=False) as reply,
        ):
            assert reply.is_event_stream is streams
            assert reply.content_type == kind
            await reply.read_all(100)
            assert reply.is_event_stream is streams

    asyncio.run(scene())


def test_headers_of_the_connection_are_not_passed_on() -> None:
    async def scene() -> None:
        extra = ("X-A: 1", "x-a: 2", "Connection: keep-alive, X-Private", "X-Private: p", "Keep-Alive: t", "Upgrade: u")
        async with (
            serving(once(answer(200, b"{}", *extra))) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=False) as reply,
        ):
            assert reply.headers["x-A"] == "1"
            assert reply.end_to_end_headers() == [("Content-Type", "application/json"), ("X-A", "1"), ("x-a", "2")]

    asyncio.run(scene())


def test_large_headers_are_taken() -> None:
    async def scene() -> None:
        many = tuple(f"X-{n}: {'y' * 100}" for n in range(300))
        script = once(answer(200, b"{}", f"X-Large: {'z' * 40_000}", *many))
        async with (
            serving(script) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=False) as reply,
        ):
            assert len(reply.headers["X-Large"]) == 40_000

    asyncio.run(scene())


@pytest.mark.parametrize("end", ["close", "reset"])
def test_text_that_arrived_before_the_break_is_returned_before_the_fault(end: str) -> None:
    async def scene() -> None:
        go = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(b"one"))
            await go.wait()
            await peer.send(chunk(b"two"))
            await spin()
            if end == "reset":
                peer.reset()

        async with (
            serving(script) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=True) as reply,
        ):
            assert await reply.read_some() == b"one"
            go.set()
            await spin()
            await spin()
            assert await reply.read_some() == b"two"
            with pytest.raises(UpstreamBrokenError, match="broke off"):
                await reply.read_some()
            with pytest.raises(UpstreamBrokenError):
                await reply.read_some()

    asyncio.run(scene())


def test_a_body_shorter_than_its_length_is_a_broken_answer() -> None:
    async def scene() -> None:
        async with serving(once(answer(200, b"x" * 100)[:-1])) as server, client_of(server.url) as client:
            with pytest.raises(UpstreamBrokenError):
                await ask(client)
            assert len(server.peers) == 1

    asyncio.run(scene())


@pytest.mark.parametrize(
    "wire",
    [answer(200, b"no gzip at all", "Content-Encoding: gzip"), CHUNKED + b"zz\r\nabc\r\n"],
    ids=["compression", "framing"],
)
def test_damaged_bytes_are_named_and_not_asked_for_again(wire: bytes) -> None:
    async def scene() -> None:
        async with serving(once(wire)) as server, client_of(server.url) as client:
            with pytest.raises(UpstreamBrokenError):
                await ask(client)
            assert len(server.peers) == 1

    asyncio.run(scene())


def test_a_body_over_the_limit_is_refused_by_name() -> None:
    async def scene() -> None:
        async with (
            serving(once(answer(200, b"x" * 11))) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=False) as reply,
        ):
            with pytest.raises(UpstreamBrokenError, match="10 bytes"):
                await reply.read_all(10)

    asyncio.run(scene())


def test_a_cancelled_read_drops_the_connection_even_if_nobody_closes_the_reply() -> None:
    async def scene() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(b"one"))
            await peer.closed_by_client()
            left.set()

        async with serving(script) as server, client_of(server.url) as client:
            reply = await client.chat(b"{}", model="m", stream=True)
            assert await reply.read_some() == b"one"
            reading = asyncio.create_task(reply.read_some())
            await spin()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await left.wait()

    asyncio.run(scene())


def test_an_upstream_is_held_back_while_nobody_reads() -> None:
    async def scene() -> None:
        sent = 0

        async def script(peer: Peer) -> None:
            nonlocal sent
            await peer.request()
            await peer.send(CHUNKED)
            block = chunk(b"x" * 65536)
            while sent < 1024:  # 64 MiB
                await peer.send(block)
                sent += 1
            await peer.send(b"0\r\n\r\n")

        async with (
            serving(script) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=True) as reply,
        ):
            before = -1
            while sent != before:
                before = sent
                await spin()
            assert sent < 1024
            assert len(await reply.read_all(1 << 27)) == 1024 * 65536

    asyncio.run(scene())


def test_more_than_a_hundred_answers_are_read_at_once() -> None:
    async def scene() -> None:
        everyone = asyncio.Barrier(110)

        async def script(peer: Peer) -> None:
            await peer.request()
            await everyone.wait()
            await peer.send(CHUNKED + chunk(TEXT) + b"0\r\n\r\n")
            await peer.closed_by_client()

        async with serving(script) as server, client_of(server.url) as client:
            assert await asyncio.gather(*(ask(client) for _ in range(110))) == [TEXT] * 110

    asyncio.run(scene())


@pytest.mark.parametrize("before", [b"", CHUNKED, CHUNKED + chunk(b"one")], ids=["no byte", "headers", "in mid answer"])
def test_stopping_ends_requests_that_still_run_with_an_error(before: bytes) -> None:
    async def scene() -> None:
        asked, left = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(before)
            asked.set()
            await peer.closed_by_client()
            left.set()

        async with serving(script) as server, client_of(server.url) as client:
            asking = asyncio.create_task(ask(client))
            await asked.wait()
            await spin()
            await client.stop()
            with pytest.raises((UpstreamBrokenError, UpstreamConnectError)):
                await asking
            await left.wait()
            assert len(server.peers) == 1

    asyncio.run(scene())


def test_an_answer_that_comes_before_the_request_was_read_keeps_its_status() -> None:
    async def scene() -> None:
        async def script(peer: Peer) -> None:
            await peer.reader.readuntil(b"\r\n\r\n")
            await peer.send(answer(413, b"too large", "Connection: close"))
            await peer.closed_by_client()

        async with serving(script) as server, client_of(server.url) as client:
            with pytest.raises(UpstreamStatusError) as caught:
                await ask(client, b"x" * (16 << 20))
            assert caught.value.upstream_status == 413
            assert caught.value.body == b"too large"

    asyncio.run(scene())


# --- time, with the default limits -----------------------------------------------------------------------------------


def test_an_answer_whose_pieces_come_slowly_is_never_cut() -> None:
    async def scene() -> None:
        go = asyncio.Semaphore(0)

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(b"x"))
            while True:
                await go.acquire()
                await peer.send(chunk(b"x"))

        async with (
            serving(script, patience=FOR_EVER) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=True) as reply,
        ):
            await reply.read_some()
            for _ in range(20):
                reading = asyncio.create_task(reply.read_some())
                await skip(299)
                assert not reading.done()
                go.release()
                assert await reading == b"x"
            reading = asyncio.create_task(reply.read_some())
            await skip(299)
            assert not reading.done()
            await skip(2)
            with pytest.raises(UpstreamTimeoutError) as caught:
                await reading
            assert caught.value.phase == "idle"

    run_skipping(scene())


def test_time_in_which_nobody_reads_is_not_silence_of_the_upstream() -> None:
    async def scene() -> None:
        go = asyncio.Semaphore(0)

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(b"x"))
            while True:
                await go.acquire()
                await peer.send(chunk(b"x"))

        async with (
            serving(script, patience=FOR_EVER) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=True) as reply,
        ):
            await reply.read_some()
            for _ in range(3):
                await skip(5000)
                reading = asyncio.create_task(reply.read_some())
                await skip(299)
                assert not reading.done()
                go.release()
                assert await reading == b"x"

    run_skipping(scene())


def test_silence_is_counted_from_the_last_piece() -> None:
    async def scene() -> None:
        go = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED + chunk(b"x"))
            await go.wait()
            await peer.send(chunk(b"x"))
            await peer.closed_by_client()

        async with (
            serving(script, patience=FOR_EVER) as server,
            client_of(server.url) as client,
            await client.chat(b"{}", model="m", stream=True) as reply,
        ):
            await reply.read_some()
            reading = asyncio.create_task(reply.read_some())
            await skip(150)
            go.set()
            assert await reading == b"x"
            reading = asyncio.create_task(reply.read_some())
            await skip(200)
            assert not reading.done()
            await skip(101)
            assert reading.done()
            with pytest.raises(UpstreamTimeoutError):
                await reading

    run_skipping(scene())


def test_a_first_byte_after_a_quarter_of_an_hour_is_delivered_and_a_later_one_is_not() -> None:
    async def scene() -> None:
        go, asked = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            asked.set()
            await go.wait()
            await peer.send(CHUNKED + chunk(b"x") + b"0\r\n\r\n")
            await peer.request()
            asked.set()
            await peer.closed_by_client()

        async with serving(script, patience=FOR_EVER) as server, client_of(server.url) as client:
            asking = asyncio.create_task(ask(client))
            await asked.wait()
            asked.clear()
            await skip(899)
            assert not asking.done()
            go.set()
            assert await asking == b"x"
            asking = asyncio.create_task(ask(client))
            await asked.wait()
            await skip(901)
            with pytest.raises(UpstreamTimeoutError) as caught:
                await asking
            assert caught.value.phase == "first_byte"

    run_skipping(scene())


def test_an_error_whose_body_never_comes_keeps_its_status() -> None:
    async def scene() -> None:
        asked = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.request()
            await peer.send(answer(401, b"secret ending")[:-7])
            asked.set()
            await peer.closed_by_client()

        async with (
            serving(script, patience=FOR_EVER) as server,
            client_of(server.url, limits=UpstreamLimits()) as client,
        ):
            asking = asyncio.create_task(ask(client))
            await asked.wait()
            await skip(31)
            with pytest.raises(UpstreamStatusError) as caught:
                await asking
            assert (caught.value.upstream_status, caught.value.body) == (401, b"secret")

    run_skipping(scene())
