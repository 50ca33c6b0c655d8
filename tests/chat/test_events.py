"""What a turn and its calls publish: everything once, in order, in both modes (design of the events)."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import (
    CallFinished,
    CallFound,
    CallStarted,
    DiaryWritten,
    Door,
    Event,
    FirstToken,
    Outcome,
    PhaseDone,
    PromptExpanded,
    RoundFinished,
    RoundStarted,
    TurnFinished,
    TurnStarted,
    UpstreamAnswered,
)
from tests.chat.gated_tools import GatedTools
from tests.server import ECHO, Running, call_text, run, running, write_plugin

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])

PHASES = ["VCPTavern", "operator_text", "data", "detectors", "after_detectors", "ImageProcessor"]


async def until(server: Running, kind: type[Event], count: int = 1) -> None:
    while sum(isinstance(event, kind) for event in server.events) < count:
        await asyncio.sleep(0.002)


@MODES
def test_a_turn_with_calls_of_every_kind_tells_each_thing_once(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        write_plugin(tmp_path, "Late", ECHO, eager=False)
        text = (
            f"<think>{call_text('Thought')}</think>{call_text('Echo')}{call_text('Late')}"
            f"{call_text('Gone')}{call_text('Echo', archery='no_reply')}{call_text('Over')}"
        )
        script = [say(text, usage={"total_tokens": 5}), say("end", usage={"total_tokens": 6})]
        config = ["MaxToolCallsPerRound=4"]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, config=config) as server:
            await server.chat("x", stream=stream)
            await until(server, CallFinished, 4)
            seen = server.events
            (begin,) = [event for event in seen if isinstance(event, TurnStarted)]
            assert (begin.model, begin.stream, begin.client_ip) == ("m", stream, "127.0.0.1")
            assert {event.turn_id for event in seen} == {begin.turn_id}

            assert [event.name for event in seen if isinstance(event, PhaseDone)] == PHASES
            line = [type(event) for event in seen if not isinstance(event, PhaseDone | CallStarted | CallFinished)]
            asked = [RoundStarted, UpstreamAnswered, FirstToken]
            rounds = [*asked, *[CallFound] * 6, RoundFinished, *asked]
            assert line == [TurnStarted, PromptExpanded, *rounds, RoundFinished, TurnFinished]
            assert [e.upstream for e in seen if isinstance(e, UpstreamAnswered)] == ["API_URL"] * 2
            assert [e.text for e in seen if isinstance(e, RoundFinished)] == [text, "end"]
            usages = [(e.number, e.finish_reason, e.usage) for e in seen if isinstance(e, RoundFinished)]
            assert usages == [(1, "stop", {"total_tokens": 5}), (2, "stop", {"total_tokens": 6})]
            (end,) = [event for event in seen if isinstance(event, TurnFinished)]
            assert (end.outcome, end.rounds, end.calls, end.error) == (Outcome.SUCCESS, 2, 5, "")

            found = [event for event in seen if isinstance(event, CallFound)]
            assert [(event.tool, event.skipped_why) for event in found] == [
                ("Thought", "think"),
                ("Echo", ""),
                ("Late", ""),
                ("Gone", ""),
                ("Echo", ""),
                ("Over", "call limit"),
            ]
            meant = [event.call_id for event in found if not event.skipped_why]
            assert Counter(e.call.id for e in seen if isinstance(e, CallFinished)) == Counter(meant)
            started = {event.call_id: event for event in seen if isinstance(event, CallStarted)}
            assert [event.tool for event in started.values()].count("Gone") == 0
            assert len(started) == sum(isinstance(event, CallStarted) for event in seen) == 3
            door = Door.STREAM if stream else Door.NON_STREAM
            assert {(event.door, event.origin) for event in started.values()} == {(door, "local")}
            assert all(event.pid for event in started.values())
            assert {event.tool: event.eager for event in started.values()} == {"Echo": True, "Late": False}

    run(main())


@pytest.mark.parametrize("eager", [True, False])
@MODES
def test_a_turn_that_is_interrupted_still_counts_and_ends_its_calls(tmp_path: Path, stream: bool, eager: bool) -> None:
    async def main() -> None:
        tools = GatedTools("A", "B")
        config = [f"EagerTools={'true' if eager else 'false'}"]
        script = [say(call_text("A") + call_text("B"))]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=config, sources=[tools]) as server,
        ):
            asking = asyncio.create_task(server.chat("x", stream=stream, requestId="r"))
            await tools.begun["B"].wait()
            await server.client.post("/v1/interrupt", json={"requestId": "r"})
            await asking
            await until(server, TurnFinished)
            ends = [(e.call.tool, e.outcome) for e in server.events if isinstance(e, CallFinished)]
            assert sorted(ends) == [("A", Outcome.CANCELLED), ("B", Outcome.CANCELLED)]
            (end,) = [event for event in server.events if isinstance(event, TurnFinished)]
            assert (end.outcome, end.rounds, end.calls, end.error) == (Outcome.CANCELLED, 1, 2, "interrupt")
            assert server.events[-1] is end

    run(main())


@MODES
def test_a_diary_block_is_a_call_by_a_door_of_its_own(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        entry = "<<<DailyNoteStart>>>\nMaid: A\nDate: 2026.11.30\nContent: x\nTag: y\n<<<DailyNoteEnd>>>"
        async with ScriptedUpstream([say(entry)]) as up, running(tmp_path, up.base_url) as server:
            await server.chat("x", stream=stream)
            await until(server, DiaryWritten)
            (started,) = [event for event in server.events if isinstance(event, CallStarted)]
            (finished,) = [event for event in server.events if isinstance(event, CallFinished)]
            (begin,) = [event for event in server.events if isinstance(event, TurnStarted)]
            assert (started.door, started.tool, started.call_id) == (
                Door.DIARY_BLOCK,
                "DailyNoteWrite",
                finished.call.id,
            )
            assert started.turn_id == finished.turn_id == begin.turn_id
            assert finished.outcome is Outcome.SUCCESS

    run(main())
