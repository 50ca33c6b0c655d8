"""Progress and log lines while a call runs (MCP-12, MCP-14)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from app.extend import CallContext, CallProgress, ToolCall, ToolResult
from app.mcp.server import progress
from tests.mcp.server.bench import ERAS, MODERN, DoorBench, Work
from tests.mcp.server.raw import Raw, connected, modern
from tests.server import run

LEVEL = "io.modelcontextprotocol/logLevel"


def reporting(bench: DoorBench, *steps: float) -> Work:
    async def work(call: ToolCall, context: CallContext) -> ToolResult:
        for step in steps:
            bench.bus.publish(CallProgress(context.turn_id, call.id, step, 100, f"step {step:g}"))
            await asyncio.sleep(0.005)
        return ToolResult(structured="done")

    return work


def logging_work(*lines: tuple[str, Any]) -> Work:
    async def work(call: ToolCall, context: CallContext) -> ToolResult:
        assert context.caller is not None
        for level, data in lines:
            context.caller.log(level, data, "mine")
        return ToolResult(structured="done")

    return work


async def called(raw: Raw, era: str, meta: dict[str, Any] | None, name: str = "Works") -> list[dict[str, Any]]:
    """Call the tool; the notifications that came before the response."""
    params: dict[str, Any] = {"name": name}
    if era == MODERN:
        params = modern(params, meta=meta)
    elif meta is not None:
        params["_meta"] = meta
    raw.notes.clear()
    assert "result" in await raw.ask("tools/call", params)
    return [note for note in raw.notes if not note["method"].endswith("list_changed")]


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
@pytest.mark.parametrize("token", ["t", 0, 7])
def test_mcp_12_progress_is_told_with_the_token_strictly_increasing_and_before_the_response(
    era: str, token: str | int
) -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Works", reporting(bench, 0, 50, 50, 20, math.nan, math.inf, 100))
            if era != MODERN:
                await raw.hello()
            notes = await called(raw, era, {"progressToken": token})
            assert {note["method"] for note in notes} == {"notifications/progress"}
            assert [note["params"]["progress"] for note in notes] == [0, 50, 100]
            assert notes[0]["params"] == {"progressToken": token, "progress": 0, "total": 100, "message": "step 0"}

    run(main())


@pytest.mark.parametrize("era", ["2025-11-25", MODERN])
def test_mcp_12_who_gave_no_token_is_told_nothing(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Works", reporting(bench, 1, 2))
            if era != MODERN:
                await raw.hello()
            assert await called(raw, era, None) == []
            assert await called(raw, era, {"progressToken": True}) == [] if era != MODERN else True

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_mcp_12_at_most_ten_a_second_are_told_and_none_after_the_response(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            heard: list[float] = []

            async def work(call: ToolCall, context: CallContext) -> ToolResult:
                for step in range(1, 1001):
                    bench.bus.publish(CallProgress(context.turn_id, call.id, step))
                    if step % 20 == 0:
                        await asyncio.sleep(0.001)
                asyncio.get_running_loop().call_later(
                    0.01, bench.bus.publish, CallProgress(context.turn_id, call.id, 2000)
                )
                return ToolResult(structured="done")

            async def hear(done: float, total: float | None, message: str | None) -> None:
                heard.append(done)

            bench.tools.add("Works", work)
            async with bench.client(era) as client:
                await client.call_tool("Works", {}, progress_callback=hear)
                await asyncio.sleep(0.03)
            assert 1 <= len(heard) <= progress.PROGRESS_A_SECOND
            assert heard == sorted(set(heard)) and 2000 not in heard

    run(main())


def test_mcp_14_a_session_is_told_from_the_level_that_it_set() -> None:
    async def main() -> None:
        async with DoorBench(clean=lambda data: "***" if data == "secret" else data) as bench:
            lines = [(level, {"n": level}) for level in ("debug", "info", "notice", "warning", "error")]
            bench.tools.add("Works", logging_work(*lines, ("emergency", "secret")))
            async with connected(bench.door) as raw:
                await raw.hello()
                first = await called(raw, "2025-11-25", None)
                assert [note["params"]["level"] for note in first][:2] == ["info", "notice"]  # info before it said so
                assert first[0]["params"] == {"level": "info", "data": {"n": "info"}, "logger": "mine"}
                assert first[-1]["params"]["data"] == "***"  # never secrets
                assert (await raw.ask("logging/setLevel", {"level": "error"}))["result"] == {}
                again = await called(raw, "2025-11-25", None)
                assert [note["params"]["level"] for note in again] == ["error", "emergency"]
                assert (await raw.ask("logging/setLevel", {"level": "loud"}))["error"]["code"] == -32602

    run(main())


def test_mcp_14_without_a_session_only_a_request_that_names_a_level_is_told() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Works", logging_work(("debug", 1), ("warning", 2), ("alert", 3)))
            assert await called(raw, MODERN, None) == []
            notes = await called(raw, MODERN, {LEVEL: "warning"})
            assert [note["params"]["data"] for note in notes] == [2, 3]
            assert (await raw.ask("logging/setLevel", modern({"level": "info"})))["error"]["code"] == -32601

    run(main())


def test_mcp_14_a_thread_may_log_and_a_level_that_is_none_is_an_error() -> None:
    async def main() -> None:
        async def work(call: ToolCall, context: CallContext) -> ToolResult:
            assert context.caller is not None
            await asyncio.to_thread(context.caller.log, "info", "from a thread")
            with pytest.raises(ValueError, match="loud"):
                context.caller.log("loud", 1)
            return ToolResult(structured="done")

        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Works", work)
            await raw.hello()
            (note,) = await called(raw, "2025-11-25", None)
            assert note["params"] == {"level": "info", "data": "from a thread"}

    run(main())


def test_a_flood_of_lines_is_cut_off_and_the_call_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(progress, "MAX_LINES", 5)
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Works", logging_work(*[("info", number) for number in range(100)]))
            await raw.hello()
            assert [note["params"]["data"] for note in await called(raw, "2025-11-25", None)] == list(range(5))

    run(main())


def test_mcp_14_data_that_is_no_json_is_an_error_of_the_tool_and_half_characters_are_mended() -> None:
    async def main() -> None:
        async def work(call: ToolCall, context: CallContext) -> ToolResult:
            assert context.caller is not None
            for odd in (object(), {1: object()}, {"a": {1, 2}}):
                with pytest.raises((ValueError, TypeError)):
                    context.caller.log("info", odd)
            context.caller.log("info", "half \ud83d", "name \ud83d")
            return ToolResult(structured="done")

        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Works", work)
            await raw.hello()
            (note,) = await called(raw, "2025-11-25", None)
            assert note["params"] == {"level": "info", "data": "half \ufffd", "logger": "name \ufffd"}

    run(main())
