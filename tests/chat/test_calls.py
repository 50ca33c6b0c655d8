"""The calls of one round, with tools that behave badly."""

import asyncio
import itertools
from datetime import UTC
from typing import Any

import pytest

from app.chat import calls as calls_module
from app.chat.background import BackgroundTasks
from app.chat.calls import CallRules, RoundCalls
from app.chat.text_format import TextCallFormat
from app.extend import (
    CallContext,
    CallFinished,
    CallFound,
    CallOutcome,
    CallTool,
    Door,
    ErrorKind,
    Event,
    Outcome,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.tools.rendering import ResultFormat
from tests.server import call_text


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def publish(self, event: Event) -> None:
        self.events.append(event)


def round_calls(
    tool: CallTool, *, background: BackgroundTasks | None = None, spec: ToolSpec | None = None, **rules: Any
) -> tuple[RoundCalls, Heard]:
    heard, ids = Heard(), itertools.count(1)
    calls = RoundCalls(
        tool,
        lambda name: spec,
        heard,
        BackgroundTasks() if background is None else background,
        CallContext("t", Door.STREAM),
        CallRules(**rules),
        TextCallFormat(lambda: f"c{next(ids)}", UTC, ResultFormat()),
        lambda: 0.0,
    )
    return calls, heard


async def all_of(calls: RoundCalls) -> list[CallOutcome]:
    calls.finish()
    calls.start_all()
    found = []
    while (outcome := await calls.next_finished()) is not None:
        found.append(outcome)
    return found


async def fine(call: ToolCall, context: CallContext) -> ToolResult:
    return ToolResult(structured=call.tool)


def test_a_tool_that_raises_or_cancels_itself_gives_an_error_and_nobody_waits_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def tool(call: ToolCall, context: CallContext) -> ToolResult:
        if call.tool == "Raises":
            raise RuntimeError("inside")
        if call.tool == "Cancels":
            raise asyncio.CancelledError
        return ToolResult(structured=1)

    async def main() -> None:
        calls, _ = round_calls(tool)
        calls.feed({"content": call_text("Raises") + call_text("Cancels") + call_text("Good")})
        await all_of(calls)
        assert [outcome.result.error_kind for outcome in calls.outcomes()] == [
            ErrorKind.EXECUTION,
            ErrorKind.CANCELLED,
            None,
        ]
        assert "inside" in calls.outcomes()[0].result.message

    asyncio.run(asyncio.wait_for(main(), 10))
    assert "RuntimeError" in caplog.text


def test_outcomes_come_as_they_end_and_are_told_in_call_order() -> None:
    async def main() -> None:
        gates = {name: asyncio.Event() for name in "ABC"}

        async def tool(call: ToolCall, context: CallContext) -> ToolResult:
            await gates[call.tool].wait()
            return ToolResult(structured=call.tool)

        calls, _ = round_calls(tool)
        calls.feed({"content": "".join(map(call_text, "ABC"))})
        order = []
        for name in "CAB":
            gates[name].set()
            outcome = await calls.next_finished()
            assert outcome is not None
            order.append(outcome.call.tool)
        assert await calls.next_finished() is None
        assert order == ["C", "A", "B"]
        assert [outcome.call.tool for outcome in calls.outcomes()] == ["A", "B", "C"]

    asyncio.run(asyncio.wait_for(main(), 10))


@pytest.mark.parametrize("reason", ["setting", "manifest", "neither"])
def test_a_call_starts_at_once_unless_setting_or_manifest_forbid(reason: str) -> None:
    async def main() -> None:
        seen: list[bool] = []

        async def tool(call: ToolCall, context: CallContext) -> ToolResult:
            seen.append(context.eager)
            return ToolResult()

        spec = ToolSpec("A", "local", "A", eager=reason != "manifest")
        calls, _ = round_calls(tool, spec=spec, eager=reason != "setting")
        calls.feed({"content": call_text("A") + " and more"})
        await asyncio.sleep(0)
        assert seen == ([True] if reason == "neither" else [])
        await all_of(calls)
        assert seen == [reason == "neither"]

    asyncio.run(main())


def test_in_a_round_whose_calls_are_not_run_nothing_starts_and_they_are_counted() -> None:
    async def main() -> None:
        calls, heard = round_calls(fine, run=False)
        calls.feed(
            {"content": call_text("A") + call_text("B", archery="true") + "<think>" + call_text("C") + "</think>"}
        )
        assert await all_of(calls) == []
        assert (calls.found, calls.skipped) == (0, 2)
        reasons = [event.skipped_why for event in heard.events if isinstance(event, CallFound)]
        assert reasons[:2] == ["round limit"] * 2
        assert reasons[2] not in ("", "round limit")

    asyncio.run(main())


def test_calls_beyond_the_limit_are_errors_and_events_say_so_archery_too() -> None:
    async def main() -> None:
        ran: list[str] = []

        async def tool(call: ToolCall, context: CallContext) -> ToolResult:
            ran.append(call.tool)
            return ToolResult()

        calls, heard = round_calls(tool, limit=2)
        text = call_text("A") + call_text("B", archery="no_reply") + call_text("C") + call_text("D", archery="no_reply")
        calls.feed({"content": text})
        await all_of(calls)
        assert sorted(ran) == ["A", "B"]
        assert [(one.call.tool, one.result.error_kind) for one in calls.outcomes()] == [
            ("A", None),
            ("C", ErrorKind.LIMIT),
        ]
        why = [event.skipped_why for event in heard.events if isinstance(event, CallFound)]
        assert why == ["", "", "call limit", "call limit"]

    asyncio.run(main())


def test_thousands_of_calls_beyond_the_limit_take_linear_time() -> None:
    async def main() -> None:
        calls, _ = round_calls(fine, limit=1)
        calls.feed({"content": call_text("A") * 5000})
        assert len(await all_of(calls)) == len(calls.outcomes()) == 5000

    asyncio.run(main())


def test_an_archery_call_that_finds_no_place_is_refused_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        calls, heard = round_calls(fine, background=BackgroundTasks(limit=0))
        calls.feed({"content": call_text("A", archery="true")})
        assert await all_of(calls) == []
        assert ends(heard) == [("A", Outcome.ERROR, ErrorKind.QUEUE)]

    asyncio.run(main())
    assert "archery A not started" in caplog.text


def ends(heard: Heard) -> list[tuple[str, Outcome, ErrorKind | None]]:
    return [
        (event.call.tool, event.outcome, event.result.error_kind)
        for event in heard.events
        if isinstance(event, CallFinished)
    ]


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("way", ["cancel", "release"])
def test_a_call_that_is_stopped_before_its_first_step_is_finished_all_the_same(eager: bool, way: str) -> None:
    async def main() -> None:
        calls, heard = round_calls(fine, eager=eager)
        calls.feed({"content": call_text("A")})
        if way == "release":
            calls.release()
        calls.cancel()
        await calls.settled()
        never_began = way == "cancel" or not eager  # what was released goes on
        assert ends(heard) == [("A", Outcome.CANCELLED, ErrorKind.CANCELLED)] * never_began

    asyncio.run(main())


def test_a_cancelled_round_waits_for_the_clean_up_of_its_calls_and_archery_goes_on() -> None:
    async def main() -> None:
        log: list[str] = []
        release = asyncio.Event()

        async def tool(call: ToolCall, context: CallContext) -> ToolResult:
            try:
                await release.wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                log.append(f"{call.tool} cleaned")
                raise
            log.append(f"{call.tool} done")
            return ToolResult()

        background = BackgroundTasks()
        calls, _ = round_calls(tool, background=background)
        calls.feed({"content": call_text("A") + call_text("B", archery="true")})
        await asyncio.sleep(0)
        calls.cancel()
        await calls.settled()
        assert log == ["A cleaned"]
        release.set()
        await background.stop(5)
        assert log == ["A cleaned", "B done"]

    asyncio.run(main())


def test_a_tool_that_cannot_be_cancelled_is_left_behind_not_waited_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(calls_module, "SETTLE_SECONDS", 0.01)

    async def main() -> None:
        release = asyncio.Event()

        async def stubborn(call: ToolCall, context: CallContext) -> ToolResult:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return ToolResult()

        background = BackgroundTasks()
        calls, _ = round_calls(stubborn, background=background)
        calls.feed({"content": call_text("A")})
        await asyncio.sleep(0)
        calls.cancel()
        await calls.settled()
        left = len(background)
        release.set()
        await background.stop(5)
        assert left == 1

    asyncio.run(asyncio.wait_for(main(), 10))
    assert "call A does not end although it was cancelled" in caplog.text


def test_released_calls_go_on_and_are_ended_with_the_server() -> None:
    async def main() -> None:
        log: list[str] = []

        async def tool(call: ToolCall, context: CallContext) -> ToolResult:
            try:
                await asyncio.Event().wait()
            finally:
                log.append("ended")
            return ToolResult()

        background = BackgroundTasks()
        calls, _ = round_calls(tool, background=background)
        calls.feed({"content": call_text("A")})
        await asyncio.sleep(0)
        calls.release()
        calls.cancel()
        await calls.settled()
        assert (len(background), log) == (1, [])
        await background.stop(0)
        assert (len(background), log) == (0, ["ended"])

    asyncio.run(main())


def test_a_failing_background_task_is_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def fails() -> None:
            raise RuntimeError("inside")

        background = BackgroundTasks()
        assert background.start(fails(), "diary block")
        await background.stop(5)

    asyncio.run(main())
    assert "diary block failed" in caplog.text
    assert "inside" in caplog.text
