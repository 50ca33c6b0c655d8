"""What may come on a WebSocket: lengths, parts, floods, and what is none (D62, D63; RFC 6455)."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest
from websockets.frames import Opcode

from app.web import socket_connection
from tests.web.sockets import KIB, LOOPS, frame, raw, run_on, site, until

PING, PONG, CONT, BINARY, CLOSE = Opcode.PING, Opcode.PONG, Opcode.CONT, Opcode.BINARY, Opcode.CLOSE
MASK = b"\x00\x00\x00\x00"

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_messages_of_both_kinds_whole_and_in_parts_arrive_in_order(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            halves = "é字".encode()
            await client.send(
                frame("one")
                + frame(halves[:1], fin=False)
                + frame(b"in between", PING)
                + frame(halves[1:3], CONT, fin=False)
                + frame(b"", CONT, fin=False)
                + frame(halves[3:], CONT)
                + frame(b"\xff\x00", BINARY)
                + frame("")
            )
            assert await client.frame() == (PONG, b"in between")
            await until(lambda: len(place.last.order) == 5)
            assert place.last.texts == ["one", "é字", ""]
            assert place.last.binaries == [b"\xff\x00"]
            assert place.last.order == ["opened", "text", "text", "binary", "text"]

    run_on(loop, main())


def test_a_frame_that_comes_byte_by_byte_is_put_together(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            for byte in frame("slowly") + frame("x" * 300):
                await client.send(bytes([byte]))
                await asyncio.sleep(0)
            await until(lambda: place.last.texts == ["slowly", "x" * 300])
            await until(lambda: place.traffic.incoming == 0)

    run_on(loop, main())


@pytest.mark.parametrize(
    "sent",
    [
        frame("x" * (64 * KIB + 1)),
        b"\x81\xff" + (1 << 62).to_bytes(8, "big") + MASK,
        b"\x81\xff" + b"\xff" * 8 + MASK,
        frame("x" * 60_000, fin=False) + frame("x" * 60_000, CONT),
        frame("x" * 64 * KIB, fin=False) + frame("x", CONT, fin=False),
        frame("x" * 64 * KIB, fin=False) + frame("x" * 200, CONT),
    ],
)
def test_a_message_over_the_limit_ends_the_connection_before_it_is_held(loop: str, tmp_path: Path, sent: bytes) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            await client.send(sent)
            assert await client.close_code() == 1009
            assert place.last.codes == [1009]
            assert place.last.texts == []
            assert place.ended() == {"long": 1}
            assert place.traffic.incoming == 0

    run_on(loop, main())


def test_a_message_as_long_as_the_limit_with_a_ping_before_its_last_byte_is_taken(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            long = "x" * (64 * KIB - 1)
            await client.send(frame(long, fin=False) + frame("p" * 125, PING) + frame("y", CONT))
            assert (await client.frame())[0] == PONG
            await until(lambda: place.last.texts == [long + "y"])

    run_on(loop, main())


def test_the_limit_of_now_holds_for_clients_that_are_already_there(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            place.limit(message_bytes=8)
            await client.send(frame("12345678"))
            await until(lambda: place.last.texts == ["12345678"])
            await client.send(frame("123456789"))
            assert await client.close_code() == 1009

    run_on(loop, main())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(b"\xff\xfe"), 1007),
        (frame(b"\xe5", fin=False) + frame(b"\x41", CONT), 1007),
        (b"\x81\x01a", 1002),  # no mask
        (b"\xc1\x80" + MASK, 1002),  # a reserved bit
        (b"\x83\x80" + MASK, 1002),  # an opcode that is none
        (b"\x8b\x80" + MASK, 1002),
        (frame("x", CONT), 1002),  # continues nothing
        (frame("x", fin=False) + frame("y"), 1002),  # begins another one
        (b"\x09\x80" + MASK, 1002),  # a ping in parts
        (b"\x89\xfe" + struct.pack("!H", 126) + MASK + b"x" * 126, 1002),  # a ping that is too long
        (frame(b"\x03", CLOSE), 1002),  # half a code
        (frame(struct.pack("!H", 999), CLOSE), 1002),
        (frame(struct.pack("!H", 1000) + b"\xff", CLOSE), 1007),
    ],
    ids=[f"case{number}" for number in range(1, 14)],  # masks are random
)
def test_what_is_no_websocket_ends_it_with_the_code_of_the_standard(
    loop: str, tmp_path: Path, sent: bytes, code: int
) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            await client.send(frame("before") + sent + frame("after"))
            assert await client.close_code() == code
            assert place.last.codes == [code]
            assert place.last.texts == ["before"]
            assert place.ended() == {"protocol": 1}

    run_on(loop, main())


FLOODS = {
    "messages": frame(""),
    "binaries": frame(b"", BINARY),
    "pings": frame("x" * 125, PING),
    "pongs": frame("x", PONG),
    "pongs-as-ours": frame("beat", PONG),
    "empty-parts": frame(b"", CONT, fin=False),
    "tiny-parts": frame(b"x", CONT, fin=False),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_ends_after_the_limit_of_a_second_and_says_so_once(
    loop: str, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            place.limit(frames_per_second=50)
            begun = frame(b"x", fin=False) if "parts" in kind else b""
            if begun:
                place.limit(frames_per_second=51)
            await asyncio.gather(client.send(begun + FLOODS[kind] * 40_000), client.end())
            await until(lambda: place.last.codes == [1008])
            assert len(place.last.order) <= 2 + 100
            assert place.traffic.incoming == 0

    run_on(loop, main())
    assert caplog.text.count("sends too many messages") == 1


def test_long_parts_of_a_long_message_are_no_flood(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            place.limit(frames_per_second=5, message_bytes=8000 * KIB, incoming_bytes=16_000 * KIB)
            part = "x" * 16 * KIB
            await client.send(frame(part, fin=False) + frame(part, CONT, fin=False) * 300 + frame("", CONT))
            await until(lambda: [len(text) for text in place.last.texts] == [301 * 16 * KIB])

    run_on(loop, main())


def test_a_client_may_send_again_in_the_next_second(loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        clock = 100.5
        monkeypatch.setattr(
            socket_connection.FrameRate,
            "allows",
            lambda self, _now, limit, allows=socket_connection.FrameRate.allows: allows(self, clock, limit),
        )
        async with site(tmp_path) as place, raw(place) as client:
            place.limit(frames_per_second=3)
            await client.send(frame("x") * 3)
            await until(lambda: len(place.last.texts) == 3)
            clock = 101.0
            await client.send(frame("x") * 3)
            await until(lambda: len(place.last.texts) == 6)
            await client.send(frame("x"))
            assert await client.close_code() == 1008

    run_on(loop, main())


def test_a_flood_after_the_servers_goodbye_is_cut_too(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as client:
            place.limit(frames_per_second=50)
            place.last.open.close(4000, "bye")
            assert await client.close_code() == 4000
            await asyncio.gather(client.send(frame("") * 40_000), client.end())
            assert place.last.order == ["opened", "closed"]

    run_on(loop, main())


def test_unfinished_messages_of_all_have_one_limit_and_who_holds_most_gives_it_back(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place, raw(place) as small, raw(place) as large, raw(place) as third:
            await until(lambda: len(place.handlers) == 3)
            place.limit(incoming_bytes=100 * KIB)
            await small.send(frame("x" * 10 * KIB, fin=False))
            await large.send(frame("x" * 60 * KIB, fin=False))
            await until(lambda: place.traffic.incoming == 70 * KIB)
            await third.send(frame("x" * 40 * KIB, fin=False))
            assert await large.close_code() == 1013
            await until(lambda: place.traffic.incoming == 50 * KIB)
            await small.send(frame("end", CONT))
            await until(lambda: place.handlers[0].texts != [])
            assert place.traffic.incoming == 40 * KIB
            assert place.ended() == {"memory": 1}
            third.writer.transport.abort()
            await until(lambda: place.traffic.incoming == 0)

    run_on(loop, main())


def test_a_frame_whose_rest_never_comes_counts_as_far_as_it_came(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with site(tmp_path) as place:
            async with raw(place) as client:
                await client.send(frame("x" * 60 * KIB)[: 50 * KIB])
                await until(lambda: place.traffic.incoming > 49 * KIB)
            await until(lambda: place.traffic.incoming == 0 and place.last.codes == [1006])

    run_on(loop, main())
