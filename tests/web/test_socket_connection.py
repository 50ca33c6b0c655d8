"""Slow readers, dead lines, goodbyes and the end of the server (WS-15, P81, P83)."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from websockets.exceptions import ProtocolError
from websockets.frames import Opcode

from app.web import socket_connection, socket_flow
from app.web.socket_connection import SocketConnection
from app.web.socket_flow import HEAVY_SECONDS, PIECE_BYTES, REST, TURN_SECONDS
from tests.web.sockets import KEY, KIB, LOOPS, Raw, Site, all_of, frame, raw, run_on, site, until

pytestmark = pytest.mark.parametrize("loop", LOOPS)

BLOCK = b"x" * 32 * KIB


async def fill(place: Site, client: int = 0) -> None:
    """Send to a client that does not read until its line is full."""
    socket = place.handlers[client].open
    while socket.waiting < 64 * KIB:
        assert socket.send(BLOCK)
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)  # the system may still take some
    while socket.waiting < 70 * KIB:
        assert socket.send(BLOCK)
        await asyncio.sleep(0)


def test_a_client_that_does_not_read_is_dropped_at_the_limit_of_bytes_and_nobody_waits(
    loop: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as stuck, raw(place) as other:
            await until(lambda: len(place.handlers) == 2)
            await fill(place)
            told = 0
            while place.handlers[0].open.send(BLOCK):
                assert place.handlers[1].open.send(b"news")
                told += 1
                assert await other.frame() == (Opcode.TEXT, b"news")
            assert told < 16
            assert place.handlers[0].codes == []  # not within `send`
            await until(lambda: place.handlers[0].codes == [1013])
            assert place.ended() == {"slow": 1}
            assert await stuck.close_code() == 1013  # it reads after all

    run_on(loop, main())
    assert caplog.text.count("reads too slowly") == 1


def test_a_client_that_does_not_read_is_dropped_after_a_thousand_messages(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place):
            await fill(place)
            await asyncio.sleep(0)
            sent = 0
            while place.last.open.send(b"x"):
                sent += 1
                await asyncio.sleep(0)
            assert sent <= socket_flow.FRAMES_WAITING
            await until(lambda: place.last.codes == [1013])

    run_on(loop, main())


def test_many_messages_in_one_step_do_not_make_a_client_slow(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            place.limit(queue_bytes=8192 * KIB)
            for _ in range(5000):
                assert place.last.open.send(b"x" * 100)
            for _ in range(5000):
                assert len((await client.frame())[1]) == 100

    run_on(loop, main())


def test_a_message_longer_than_the_queue_goes_out_when_nothing_is_before_it_and_others_behind_it(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            assert place.last.open.send(b"x" * 16_000 * KIB)
            assert place.last.open.send(b"behind it")
            assert len((await client.frame())[1]) == 16_000 * KIB
            assert await client.frame() == (Opcode.TEXT, b"behind it")

    run_on(loop, main())


def test_what_a_dropped_client_held_is_given_back_though_it_never_reads(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_connection, "CLOSE_SECONDS", 0.05)

    def connections() -> weakref.WeakSet[SocketConnection]:
        # Not isinstance: it asks weak proxies, and those of other tests may be dead.
        return weakref.WeakSet(one for one in gc.get_objects() if type(one) is SocketConnection)

    def collected() -> bool:
        gc.collect()
        return not held

    held: weakref.WeakSet[SocketConnection] = weakref.WeakSet()
    others = connections()  # the traceback of a test that failed keeps those of its own

    async def main() -> None:
        async with site(tmp_path) as place, raw(place):
            await fill(place)
            while place.last.open.send(BLOCK):
                pass
            held.update(connections() - others)
            assert held
            await until(lambda: place.last.codes == [1013])
            await until(lambda: place.last.open.waiting == 0)
            place.handlers.clear()
            await until(collected)

    run_on(loop, main())


@pytest.mark.parametrize("way", ["goodbye", "nonsense", "half-close", "flood"])
def test_a_client_that_does_not_read_cannot_keep_its_line_by_any_way_of_ending(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(socket_connection, "CLOSE_SECONDS", 0.05)

    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            await fill(place)
            if way == "half-close":
                client.writer.write_eof()
            else:
                sent = {"goodbye": frame(struct.pack("!H", 1000), Opcode.CLOSE), "nonsense": b"\xff\xff"}
                await client.send(sent.get(way, frame("") * 500))
            code = {"goodbye": 1000, "nonsense": 1002, "half-close": 1006, "flood": 1008}[way]
            await until(lambda: place.last.codes == [code])
            await until(lambda: place.last.open.waiting == 0)
            assert place.last.codes == [code]

    run_on(loop, main())


def test_after_the_servers_goodbye_a_clients_own_does_not_keep_a_full_line(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_connection, "CLOSE_SECONDS", 0.05)

    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            await fill(place)
            place.last.open.close(1001, "bye")
            await client.send(frame(struct.pack("!H", 1001), Opcode.CLOSE))
            await until(lambda: place.last.open.waiting == 0)
            assert place.last.codes == [1001]

    run_on(loop, main())


def test_a_client_that_pings_and_does_not_read_is_dropped(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            await fill(place)
            place.limit(queue_bytes=8 * KIB, frames_per_second=1_000_000)
            await client.send(frame("x" * 125, Opcode.PING) * 3000)
            await until(lambda: place.last.codes == [1013])

    run_on(loop, main())


def test_many_ends_while_all_are_told_something_do_not_pile_up(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            clients = [raw(place) for _ in range(12)]
            opened = [await client.__aenter__() for client in clients]
            await until(lambda: len(place.handlers) == 12)
            depth = deepest = 0

            def tell_all() -> None:
                nonlocal depth, deepest
                depth += 1
                deepest = max(deepest, depth)
                for handler in place.handlers:
                    handler.open.send(BLOCK)
                depth -= 1

            for number, handler in enumerate(place.handlers):
                handler.on_closed = tell_all
                await fill(place, number)
            while not any(handler.codes for handler in place.handlers):
                tell_all()
                await asyncio.sleep(0)
            await until(lambda: all(handler.codes == [1013] for handler in place.handlers))
            assert deepest == 1
            for client in clients:
                await client.__aexit__(None, None, None)
            assert len(opened) == 12

    run_on(loop, main())


# ---------------------------------------------------------------- P81: lines that are dead


def test_a_client_that_answers_no_ping_is_gone_after_two(loop: str, tmp_path: Path) -> None:
    """P81: half-open lines do not stay listed."""

    async def main() -> None:
        async with site(tmp_path) as place:
            place.limit(ping_seconds=0.02)
            async with raw(place) as client:
                assert await client.frame() == (Opcode.PING, b"beat")
                assert await client.frame() == (Opcode.PING, b"beat")
                assert (await client.frame())[0] == Opcode.CLOSE
                assert place.last.codes == [1011]
                assert place.ended() == {"silent": 1}

    run_on(loop, main())


def test_whoever_answers_or_sends_anything_stays(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            place.limit(ping_seconds=0.01, message_bytes=4000 * KIB)
            async with raw(place) as answering, raw(place) as uploading:
                await until(lambda: len(place.handlers) == 2)
                long = frame("x" * 20 * KIB)
                for number in range(12):  # one long message, as slow as it may be
                    assert (await answering.frame())[0] == Opcode.PING
                    await answering.send(frame("beat", Opcode.PONG))
                    await uploading.send(long[number * 1000 : number * 1000 + 1000])
                assert [handler.codes for handler in place.handlers] == [[], []]
                await uploading.send(long[12_000:])
                await until(lambda: place.handlers[1].texts != [])

    run_on(loop, main())


def test_a_client_that_takes_a_long_message_slowly_is_alive_though_it_cannot_see_the_ping(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            connection = place.last.open._connection  # type: ignore[attr-defined]  # its clock is turned by hand
            assert place.last.open.send(b"x" * 24_000 * KIB)
            await asyncio.sleep(0.01)
            for _ in range(6):
                await client.reader.readexactly(3000 * KIB)
                await asyncio.sleep(0.005)
                connection._heartbeat()
            assert place.last.codes == []
            for _ in range(3):
                connection._heartbeat()
            assert place.last.codes == [1011]

    run_on(loop, main())


def test_ping_tells_the_seconds_or_that_nobody_answered(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:

            async def answer() -> None:
                opcode, payload = await client.frame()
                assert opcode == Opcode.PING
                await client.send(frame(payload, Opcode.PONG))

            took, _ = await all_of(place.last.open.ping(5), answer())
            assert took is not None and took >= 0
            assert await place.last.open.ping(0.01) is None
            waiting = [asyncio.ensure_future(place.last.open.ping(10)) for _ in range(socket_flow.OPEN_PINGS + 1)]
            await asyncio.sleep(0)
            assert await waiting[-1] is None  # no more than so many at a time
            client.writer.transport.abort()
            assert await asyncio.gather(*waiting) == [None] * len(waiting)
            assert await place.last.open.ping(10) is None

    run_on(loop, main())


# ---------------------------------------------------------------- goodbyes


@pytest.mark.parametrize(
    "way", ["client", "server", "abort", "half-close", "handler-opened", "handler-text", "handler-closed", "stop"]
)
def test_the_handler_is_told_once_that_it_is_over_and_nothing_comes_after(loop: str, tmp_path: Path, way: str) -> None:
    async def main() -> None:
        def fail(*_: object) -> None:
            raise ValueError("a fault of who serves it")

        async with site(tmp_path) as place:
            async with raw(place) as client:
                handler = place.last
                match way:
                    case "client":
                        await client.send(frame("x") + frame(b"\x0f\xa1", Opcode.CLOSE) + frame("late"))
                        assert await client.close_code() == 4001
                    case "server":
                        handler.on_text = lambda _text: handler.open.close(4002)
                        await client.send(frame("x") + frame("late"))
                        assert await client.close_code() == 4002
                    case "abort":
                        client.writer.transport.abort()
                    case "half-close":
                        client.writer.write_eof()
                    case "handler-text":
                        handler.on_text = fail
                        await client.send(frame("x") + frame("late"))
                        assert await client.close_code() == 1011
                    case "handler-closed":
                        handler.on_closed = fail
                        client.writer.transport.abort()
                    case "handler-opened":
                        place.accept = lambda request: FailsAtOpening()
                        async with raw(place) as other:
                            assert await other.close_code() == 1011
                        client.writer.transport.abort()
                    case "stop":
                        pass
                if way != "stop":
                    await until(lambda: handler.codes != [])
                    assert not handler.open.send("too late")
                    handler.open.close()
            if way == "stop":
                await until(lambda: handler.codes != [])
            assert handler.order.count("closed") == 1
            assert handler.order[-1] == "closed"
        assert len(handler.codes) == 1
        assert sum(place.traffic.ended.values()) == (2 if way == "handler-opened" else 1)

    run_on(loop, main())


class FailsAtOpening:
    def opened(self, socket: object) -> None:
        raise ValueError("a fault of who serves it")

    def text(self, text: str) -> None:
        raise AssertionError

    def binary(self, data: bytes) -> None:
        raise AssertionError

    def closed(self, code: int) -> None:
        assert code == 1011


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 5000, 65_536])
def test_a_code_that_must_not_be_sent_is_an_error_that_changes_nothing(loop: str, tmp_path: Path, code: int) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            with pytest.raises(ProtocolError):
                place.last.open.close(code)
            assert place.last.open.send("still here")
            assert await client.frame() == (Opcode.TEXT, b"still here")

    run_on(loop, main())


def test_a_reason_of_any_length_is_cut_between_characters(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            place.last.open.close(1000, "字" * 100)
            opcode, data = await client.frame()
            assert (opcode, data[2:].decode()) == (Opcode.CLOSE, "字" * 40)

    run_on(loop, main())


# ---------------------------------------------------------------- P83: the server ends


def test_the_end_of_the_server_says_goodbye_and_waits_for_nobody(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        clients: list[Raw] = []
        async with site(tmp_path) as place:
            for _ in range(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
                clients.append(Raw(reader, writer))
                assert (await clients[-1].handshake()).startswith(b"HTTP/1.1 101 ")
            await until(lambda: len(place.handlers) == 30)
            await fill(place)  # this one does not even read
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 5
        assert [handler.codes for handler in place.handlers] == [[1001]] * 30
        assert [await client.close_code() for client in clients[1:]] == [1001] * 29
        for client in clients:
            client.writer.transport.abort()
        await asyncio.sleep(0)

    run_on(loop, main())


def test_a_stop_in_the_middle_of_a_handshake_leaves_nothing(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
            writer.write(f"GET /s/VCP_Key={KEY} HTTP/1.1\r\nUpgrade: web".encode())
            await writer.drain()
            late = socket.create_connection(("127.0.0.1", place.port))
            await asyncio.sleep(0.01)
        assert await reader.read() == b""
        writer.close()
        late.close()
        assert place.handlers == []

    run_on(loop, main())


def test_whoever_gives_much_to_do_is_read_in_turns_in_order_and_to_the_end(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as busy, raw(place) as other:
            order: list[str] = []

            def work(name: str, seconds: float) -> Callable[[str], object]:
                def read(text: str) -> None:
                    order.append(f"{name}{text}")
                    ends = time.perf_counter() + seconds
                    while time.perf_counter() < ends:
                        pass

                return read

            place.handlers[0].on_text = work("busy", TURN_SECONDS * 1.1)
            place.handlers[1].on_text = work("other", 0)
            long = " " * PIECE_BYTES
            await busy.send(b"".join(frame(f"{number}{long}") for number in range(10)))
            await until(lambda: len(order) > 0)
            await other.send(frame("!"))
            await until(lambda: len(order) == 11)
            told = [text.strip() for text in order]
            assert [text for text in told if text != "other!"] == [f"busy{number}" for number in range(10)]
            assert told.index("other!") < 8, "the other one had its turn between"
            assert place.traffic.incoming == 0

    run_on(loop, main())


def test_a_heavy_message_lets_its_client_rest_and_the_end_of_the_line_ends_the_rest(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as heavy:
            read: list[float] = []

            def work(_text: str) -> None:
                read.append(time.perf_counter())
                while time.perf_counter() < read[-1] + HEAVY_SECONDS * 1.2:
                    pass

            place.last.on_text = work
            await heavy.send(frame("first") + frame(" " * PIECE_BYTES) + frame("then"))
            await until(lambda: len(read) >= 2)
            assert read[-1] - read[0] >= REST * HEAVY_SECONDS
            heavy.writer.transport.abort()
        await until(lambda: place.last.codes != [])

    run_on(loop, main())
