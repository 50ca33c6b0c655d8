"""One streamed response: its start, its beats, its end. The client is the ASGI ``send``, which may make us wait."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from starlette.types import Message

from app.web.event_stream import HEARTBEAT, EventStream


class Client:
    """Takes what is sent. While it does not read, every send waits and has sent nothing, as with uvicorn."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self.waiting = asyncio.Event()
        self.beaten = asyncio.Event()

    async def send(self, message: Message) -> None:
        if not self.reading.is_set():
            self.waiting.set()
            await self.reading.wait()
        self.messages.append(message)
        if message.get("body") == HEARTBEAT:
            self.beaten.set()

    @property
    def kinds(self) -> list[str]:
        return [message["type"].removeprefix("http.response.") for message in self.messages]

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


def run(main: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main(Client()), 10)

    asyncio.run(bounded())


def test_the_response_starts_with_the_first_event_and_ends_once() -> None:
    async def main(client: Client) -> None:
        stream = EventStream(client.send, 0, hold=False, headers=lambda: {"X-Request-Id": "r"})
        assert client.messages == []
        await stream.write(b"a")
        await stream.write(b"b")
        await stream.end()
        assert client.kinds == ["start", "body", "body", "body"]
        assert client.body == b"ab"
        assert [message.get("more_body") for message in client.messages[1:]] == [True, True, False]
        headers = dict(client.messages[0]["headers"])
        assert headers[b"content-type"] == b"text/event-stream"
        assert headers[b"cache-control"] == b"no-cache"
        assert headers[b"x-request-id"] == b"r"

    run(main)


def test_a_stream_without_events_sends_nothing() -> None:
    async def main(client: Client) -> None:
        await EventStream(client.send, 0, hold=False).end()
        assert client.messages == []

    run(main)


def test_beats_come_while_nothing_else_does_also_before_the_first_event() -> None:
    async def main(client: Client) -> None:
        stream = EventStream(client.send, 0.005, hold=False)
        await client.beaten.wait()
        assert client.kinds[0] == "start"
        client.beaten.clear()
        await stream.write(b"event\n\n")
        await client.beaten.wait()
        await stream.end()
        assert client.body.replace(HEARTBEAT, b"") == b"event\n\n"
        assert client.kinds.count("start") == 1

    run(main)


def test_a_held_response_is_not_started_by_a_beat() -> None:
    async def main(client: Client) -> None:
        stream = EventStream(client.send, 0.002, hold=True)
        free = EventStream(Client().send, 0.01, hold=False)  # beats later than the held one would have
        while not free.started:
            await asyncio.sleep(0)
        assert client.messages == []
        await stream.write(b"a")
        await client.beaten.wait()
        await stream.end()
        free.stop_beating()

    run(main)


def test_a_client_that_does_not_read_has_one_waiting_beat_and_no_beat_follows_the_end() -> None:
    async def main(client: Client) -> None:
        stream = EventStream(client.send, 0.002, hold=False)
        await stream.write(b"a")
        client.reading.clear()
        await client.waiting.wait()
        other = EventStream(Client().send, 0.01, hold=False)
        while not other.started:  # time for more beats
            await asyncio.sleep(0)
        ending = asyncio.create_task(stream.end())
        await asyncio.sleep(0)
        client.reading.set()
        await ending
        assert client.body == b"a" + HEARTBEAT
        assert client.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        other.stop_beating()

    run(main)


@pytest.mark.parametrize("started", [False, True])
def test_a_write_that_is_cancelled_has_sent_nothing_and_the_next_one_is_whole(started: bool) -> None:
    async def main(client: Client) -> None:
        stream = EventStream(client.send, 0, hold=False)
        if started:
            await stream.write(b"first")
        client.reading.clear()
        writing = asyncio.create_task(stream.write(b"lost"))
        await client.waiting.wait()
        writing.cancel()
        await asyncio.wait({writing})
        client.reading.set()
        await stream.write(b"next")
        await stream.end()
        assert client.kinds[0] == "start"
        assert client.kinds.count("start") == 1
        assert client.body == (b"firstnext" if started else b"next")

    run(main)
