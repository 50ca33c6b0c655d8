"""The line to the main server: what is sent arrives once and in order, and never more waits than may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from websockets.asyncio.server import ServerConnection, serve

from app.node.line import SMALL_BYTES, Line, open_line
from tests.node.bench import until

LONG = 4 * 1024 * 1024


@asynccontextmanager
async def lines(max_queued: Callable[[], int] = lambda: 8 * LONG) -> AsyncIterator[tuple[Line, ServerConnection]]:
    """Both ends of a line."""
    joined: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def handle(connection: ServerConnection) -> None:
        joined.put_nowait(connection)
        await connection.wait_closed()

    async with serve(handle, "127.0.0.1", 0, max_size=None, close_timeout=1) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        line = await open_line(
            f"ws://127.0.0.1:{port}",
            {},
            tls=None,
            proxy=None,
            max_frame=LONG,
            max_queued=max_queued,
            agent="test",
        )
        yield line, await joined.get()
        await line.close()


def test_short_messages_stay_behind_a_long_one_that_is_still_on_its_way() -> None:
    async def main() -> None:
        async with lines() as (line, server):
            messages = [b"first", b"x" * LONG, *(b"%d" % number for number in range(50)), b"y" * (SMALL_BYTES + 1)]
            sent = [asyncio.create_task(line.send(message)) for message in messages]
            received = [await server.recv(decode=False) for _ in messages]
            assert received == messages
            assert await asyncio.gather(*sent) == [True] * len(messages)

    asyncio.run(main())


def test_short_messages_to_a_server_that_does_not_read_wait_and_then_end_the_line() -> None:
    """Those that are given to the network at once must not get around the limit of what waits."""

    async def main() -> None:
        async with lines(lambda: 100_000) as (line, server):
            server.transport.pause_reading()
            message, sent, most = b"x" * SMALL_BYTES, [], 0
            async with asyncio.timeout(15):
                while line.open:
                    sent.append(asyncio.create_task(line.send(message)))
                    await asyncio.sleep(0)
                    most = max(most, line._wire.transport.get_write_buffer_size())
            assert 0 < most <= 10 * SMALL_BYTES
            assert False in await asyncio.gather(*sent)
            server.transport.abort()

    asyncio.run(main())


def test_a_line_that_is_gone_takes_nothing_and_says_so() -> None:
    async def main() -> None:
        async with lines() as (line, server):
            assert await line.send(b"a")
            server.transport.abort()
            await until(lambda: not line.open)
            assert not await line.send(b"b")

    asyncio.run(main())


def test_short_messages_are_taken_in_the_step_in_which_they_come_but_never_before_others() -> None:
    async def main() -> None:
        async with asyncio.timeout(15), lines() as (line, server):
            taken: list[bytes] = []

            def takes(message: bytes) -> bool:
                taken.append(message)
                return message.startswith(b"call")

            line.take_at_once(takes)
            for message in ("call 1", "other", "call 2", "call 3"):
                await server.send(message)
            assert await line.receive() == b"other"
            await until(lambda: line._wire.ahead == 3)  # all have come, and the first is still worked on
            assert [await line.receive() for _ in range(2)] == [b"call 2", b"call 3"]
            assert taken == [b"call 1", b"other"]
            waiting = asyncio.create_task(line.receive())  # all that came is done
            await asyncio.sleep(0)
            await server.send("call 4")
            await server.send(iter(["call", " in pieces"]))
            await server.send("call" + "x" * SMALL_BYTES)
            await server.send(b"call in bytes")
            assert await waiting == b"call in pieces"
            assert taken == [b"call 1", b"other", b"call 4"]
            assert await line.receive() == b"call" + b"x" * SMALL_BYTES
            assert await line.receive() == b"call in bytes"

    asyncio.run(main())
