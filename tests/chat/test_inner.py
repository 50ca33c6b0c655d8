"""Turns for other parts of the server: the completion as a value, errors raised, limits kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat.inner import InnerChatError
from app.chat.running import TooManyTurnsError
from app.demo.script import Hold, json_reply, no_answer, say
from app.demo.scripted import ScriptedUpstream
from app.errors import BadRequestError
from app.extend import CallContext, Door
from app.observe.traces.store import Wanted
from tests.server import chat_body, run, running

CONTEXT = CallContext("t", Door.AGENT, client_ip="10.0.0.7", depth=3)


def test_the_completion_is_returned_and_the_clients_body_stays_untouched(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("hello")]) as up, running(tmp_path, up.base_url) as server:
            body = chat_body("hi", stream=True, foo=1)
            done = await server.services.inner_chat(body, CONTEXT)
            assert done["choices"][0]["message"]["content"] == "hello"
            assert body["stream"] is True
            sent = up.exchanges[0].request.json
            assert (sent["foo"], sent.get("stream")) == (1, None)
            (started,) = [event for event in server.events if type(event).__name__ == "TurnStarted"]
            assert started.client_ip == "10.0.0.7"  # type: ignore[union-attr]  # a TurnStarted
            assert len(server.services.running) == 0
            (row,) = (await server.services.traces.page(Wanted())).rows
            assert row.parent == CONTEXT.turn_id  # its trace belongs to the chat that led to it

    run(main())


@pytest.mark.parametrize("body", [None, [], {}, {"messages": []}, {"messages": "x"}, {"messages": [1]}])
def test_what_is_no_chat_body_is_refused(tmp_path: Path, body: Any) -> None:
    async def main() -> None:
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url) as server:
            with pytest.raises(BadRequestError):
                await server.services.inner_chat(body, CONTEXT)

    run(main())


def test_an_error_of_the_upstream_is_raised_with_its_status_and_words(tmp_path: Path) -> None:
    async def main() -> None:
        reply = json_reply({"error": {"message": "no such model"}}, status=404)
        async with ScriptedUpstream([reply]) as up, running(tmp_path, up.base_url) as server:
            with pytest.raises(InnerChatError, match="no such model") as caught:
                await server.services.inner_chat(chat_body("hi"), CONTEXT)
            assert caught.value.status == 404

    run(main())


def test_the_deadline_ends_the_turn_and_its_upstream_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([no_answer(Hold("never"))]) as up, running(tmp_path, up.base_url) as server:
            context = CallContext("t", Door.AGENT, deadline=asyncio.get_running_loop().time() + 0.1)
            with pytest.raises(InnerChatError, match="longer than it may") as caught:
                await server.services.inner_chat(chat_body("hi"), context)
            assert caught.value.status == 504
            assert len(server.services.running) == 0

    run(main())


def test_the_cap_on_running_turns_holds(tmp_path: Path) -> None:
    async def main() -> None:
        whole = say("x").whole()
        held = replace(whole, steps=(Hold("go"), *whole.steps))
        async with (
            ScriptedUpstream([held]) as up,
            running(tmp_path, up.base_url, config=["MaxRunningTurns=1"]) as server,
        ):
            chat = server.services.inner_chat
            first = asyncio.create_task(chat(chat_body("hi"), CONTEXT))
            await up.held("go")
            with pytest.raises(TooManyTurnsError):
                await chat(chat_body("hi"), CONTEXT)
            up.release("go")
            assert (await first)["choices"][0]["message"]["content"] == "x"

    run(main())
