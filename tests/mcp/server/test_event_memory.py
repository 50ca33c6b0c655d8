"""What clients may have missed: limits, and whose it is (mcp.md MCP-43)."""

from __future__ import annotations

import asyncio
import gc

import pytest
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse

from app.mcp.server import event_memory
from app.mcp.server.event_memory import EventMemory, SessionEvents


def note(text: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": text})


def answer(id: int) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=id, result={})


def replayed(session: SessionEvents, last: str) -> tuple[str | None, list[str]]:
    seen: list[str] = []

    async def send(event: EventMessage) -> None:
        assert event.event_id is not None
        seen.append(event.event_id)

    return asyncio.run(session.replay_events_after(last, send)), seen


def stored(session: SessionEvents, stream: str, *messages: object) -> list[str]:
    return [asyncio.run(session.store_event(stream, message)) for message in messages]  # type: ignore[arg-type]


def test_only_the_rest_of_one_stream_of_one_session_comes_again() -> None:
    memory = EventMemory()
    mine, other = memory.session(), memory.session()
    first, second, _ = stored(mine, "1", None, note("a"), note("b"))
    stored(mine, "2", None, note("c"))
    (foreign,) = stored(other, "1", note("secret"))
    stream, seen = replayed(mine, first)
    assert stream == "1" and seen[0] == second and len(seen) == 2
    for unknown in (foreign, "", "nonsense", first + "0", first.split("-")[0], first.split("-")[0] + "-" + "9" * 30):
        assert replayed(mine, unknown) == (None, [])


def test_a_stream_that_was_answered_does_not_go_on() -> None:
    session = EventMemory().session()
    first, last = stored(session, "1", None, answer(1))
    assert replayed(session, first) == (None, [last])
    assert replayed(session, last) == (None, [])


def test_the_oldest_are_forgotten_when_there_is_no_room() -> None:
    memory = EventMemory(max_events=3, max_chars=100_000)
    session = memory.session()
    first, second, *_ = stored(session, "1", note("a"), note("b"), note("c"), note("d"))
    assert replayed(session, first) == (None, [])
    assert len(replayed(session, second)[1]) == 2
    stored(session, "1", note("x" * 99_000))
    assert memory.chars <= 100_000
    assert replayed(session, second) == (None, [])
    stored(session, "1", note("x" * 200_000))
    assert memory.chars == 0


def test_a_message_with_too_many_values_is_not_kept() -> None:
    memory = EventMemory()
    session = memory.session()
    huge = JSONRPCNotification(jsonrpc="2.0", method="m", params={"list": [0] * (event_memory.MAX_VALUES + 1)})
    stored(session, "1", huge)
    assert memory.chars == 0


def test_events_of_sessions_that_have_ended_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_memory, "ENDED_AT_ONCE", 2)
    memory = EventMemory()
    stays = memory.session()
    first, _ = stored(stays, "1", note("a"), note("b"))
    mine = memory.chars
    for _ in range(6):
        stored(memory.session(), "1", note("x" * 1000))
    gc.collect()
    stored(stays, "1", note("c"))
    assert memory.chars < mine + 1000, "what stays is what the session that goes on has"
    assert len(replayed(stays, first)[1]) == 2
