"""Limits of the tool socket, clients that break off in the middle, and every kind of frame from everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import ShutdownError
from app.extend import CallFinished, ErrorKind, ToolResult
from app.hub.tool_clients.registry import RegistryLimits
from app.hub.tool_clients.runs import RunLimits
from tests.hub.tool_clients.tool_bench import Bench, Line
from tests.hub.tool_clients.wire_tool_clients import completed, execute, failure, frame, refusal, register
from tests.server import run

ANY = {"type": "object"}


def kinds(line: Line) -> list[str]:
    return [one["type"] for one in line.heard()]


def only(line: Line) -> Any:
    (one,) = line.heard()
    return one


def test_how_much_a_client_and_all_together_may_register_is_limited() -> None:
    """SERVER_ERROR, privately; a tool that is registered anew takes no second place."""

    async def main() -> None:
        limits = RegistryLimits(
            tools=3, tools_of_client=2, schema_bytes=100, schema_bytes_of_client=120, schema_bytes_in_all=180
        )
        bench = Bench(registry=limits)
        one, two = bench.line(), bench.line()
        for name in ("a", "b", "a", "b"):
            one.says(register(name, ANY))
        assert kinds(one) == ["tool_registered"] * 4
        one.says(register("c", ANY))
        assert refusal(only(one)) == "SERVER_ERROR"
        two.heard()
        two.says(register("c", ANY))
        two.says(register("d", ANY))
        assert refusal(two.heard()[1]) == "SERVER_ERROR"
        one.heard()
        one.says(register("a", {**ANY, "x": "y" * 100}))
        assert refusal(only(one)) == "INVALID_SCHEMA"
        one.says(register("a", {**ANY, "x": "y" * 60}))
        one.says(register("b", {**ANY, "x": "y" * 60}))
        assert refusal(one.heard()[1]) == "SERVER_ERROR"
        deep: Any = ANY
        for _ in range(300):
            deep = {"x": deep}
        one.says(register("a", {**ANY, "x": deep}))
        assert refusal(only(one)) == "INVALID_SCHEMA"

    run(main())


def test_how_many_runs_may_go_on_is_limited_before_anybody_is_told() -> None:
    async def main() -> None:
        bench = Bench(runs=RunLimits(runs=3, runs_of_caller=2, argument_bytes=100))
        owner, one, two = bench.line(), bench.line(), bench.line()
        owner.says(register("roll", ANY))
        one.heard()
        two.heard()
        for number in range(3):
            one.says(execute(f"e{number}"))
        assert refusal(one.heard()[2]) == "SERVER_ERROR"
        assert kinds(two) == ["tool_execution_started"] * 2
        two.says(execute("big", args={"a": "x" * 100}))
        assert refusal(only(two)) == "SERVER_ERROR"
        two.says(execute("e3"))
        assert kinds(two) == ["tool_execution_started"]
        two.says(execute("e4"))
        assert refusal(only(two)) == "SERVER_ERROR"
        result = await bench.call()
        assert result.error_kind is ErrorKind.QUEUE
        await bench.settle()
        owner.says(completed("e0"))
        two.heard()
        two.says(execute("e4"))
        assert kinds(two) == ["tool_execution_started"]
        for line in (owner, one, two):
            line.leave()
        await bench.settle()
        bench.assert_empty()

    run(main())


def test_an_owner_gets_only_so_many_runs_at_a_time() -> None:
    async def main() -> None:
        bench = Bench(runs=RunLimits(runs_of_owner=2))
        owner, other = bench.line(), bench.line()
        owner.says(register("roll", ANY))
        owner.heard()
        other.heard()
        for number in range(3):
            other.says(execute(f"e{number}"))
        assert kinds(other) == [*["tool_execution_started"] * 3, "tool_execution_failed"]
        await bench.settle()
        assert (await bench.call()).error_kind is ErrorKind.QUEUE

    run(main())


def test_a_client_that_breaks_off_in_a_broadcast_changes_the_order_for_nobody() -> None:
    """WS-12, WS-19: also when it is the owner: the start is told to all before the end that this leads to."""

    async def main() -> None:
        for breaks_at in (2, 3):
            bench = Bench()
            owner, early, late = bench.line(breaks_at=breaks_at), bench.line(), bench.line()
            owner.says(register("roll", ANY))
            late.says(execute())
            await bench.settle()
            for line in (early, late):
                assert kinds(line) == [
                    "tool_registered",
                    "tool_execution_started",
                    "tool_execution_failed",
                    "tool_unregistered",
                ]
            assert bench.clients.running() == 0
            assert bench.clients.tools() == {}

    run(main())


def test_a_caller_that_breaks_off_leaves_the_run_to_the_others() -> None:
    """WS-13."""

    async def main() -> None:
        bench = Bench()
        owner, caller = bench.line(), bench.line(breaks_at=2)
        owner.says(register("roll", ANY))
        caller.says(execute())
        await bench.settle()
        assert caller.closed == 1013
        owner.says(completed())
        assert kinds(owner)[-1] == "tool_execution_completed"
        await bench.settle()
        owner.leave()
        bench.assert_empty()

    run(main())


def test_an_id_that_a_client_took_is_not_used_for_a_call_from_another_door() -> None:
    async def main() -> None:
        bench = Bench()
        owner = bench.line()
        owner.says(register("roll", ANY))
        owner.says(execute("c1"))
        await bench.settle()
        owner.heard()
        calling = bench.call(call_id="c1")
        await bench.settle()
        asked = owner.heard()[1]["data"]["executionId"]
        assert asked != "c1"
        owner.says(completed(asked, "other"))
        owner.says(completed("c1", "own"))
        assert (await calling).structured == "other"
        assert [one["data"]["result"] for one in owner.heard()] == ["other", "own"]

    run(main())


def test_a_tool_that_changed_hands_while_a_guard_waited_is_not_run() -> None:
    """The arguments were checked against the schema of somebody else."""

    async def main() -> None:
        bench = Bench()
        one, two = bench.line(), bench.line()
        one.says(register("roll", ANY))
        two.says(execute())  # the router has not begun yet
        one.says(frame("unregister_tool", name="roll"))
        two.says(register("roll", ANY))
        await bench.settle()
        assert failure(two.heard()[-1])[0] == "TOOL_NOT_FOUND"
        assert "execute_tool" not in kinds(one)

    run(main())


def test_a_run_is_cancelled_before_the_router_began() -> None:
    async def main() -> None:
        bench = Bench()
        owner, caller = bench.line(), bench.line()
        owner.says(register("roll", ANY))
        caller.says(execute())
        caller.says(frame("cancel_execution", executionId="e1"))
        assert failure(caller.heard()[-1])[0] == "TOOL_EXECUTION_FAILED"
        await bench.settle()
        assert kinds(owner)[1:] == ["tool_execution_started", "execution_cancelled", "tool_execution_failed"]
        assert bench.clients.running() == 0

    run(main())


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (ToolResult(structured="x" * 300), "TOOL_EXECUTION_FAILED"),
        (ToolResult(structured={1, 2}), "TOOL_EXECUTION_FAILED"),
        (ToolResult(error_kind=ErrorKind.REFUSED, message="no \ud83d"), "TOOL_EXECUTION_FAILED"),
        (ToolResult(error_kind=ErrorKind.UNKNOWN_TOOL, message="no"), "TOOL_NOT_FOUND"),
    ],
)
def test_whatever_our_own_tool_answers_is_a_frame(result: ToolResult, code: str) -> None:
    async def main() -> None:
        bench = Bench()
        bench.rules = replace(bench.rules, result_bytes=200)
        bench.ours.result = result
        line = bench.line()
        line.says(execute("e1", "Ours"))
        await bench.settle()
        assert failure(line.heard()[1])[0] == code
        line.says(execute("e2", "Still"))
        assert failure(line.heard()[1], "e2")[0] == "TOOL_NOT_FOUND"

    run(main())


def test_values_that_json_has_no_words_for_become_null_or_whole() -> None:
    async def main() -> None:
        bench = Bench()
        bench.ours.result = ToolResult(structured={"a": float("nan"), "b": "\ud83d"})
        line = bench.line()
        line.says(execute("e1", "Ours"))
        await bench.settle()
        assert failure(line.heard()[1])[0] == "TOOL_EXECUTION_FAILED"
        bench.ours.result = ToolResult(structured={"b": "\ud83d"})
        line.says(execute("e1", "Ours"))
        await bench.settle()
        assert line.heard()[1]["data"]["result"] == {"b": "\ufffd"}

    run(main())


def test_what_a_client_calls_while_it_works_for_a_chat_is_as_deep_as_that_call() -> None:
    """Agents and tools that call each other end at MaxCallDepth, also by way of a tool client."""

    async def main() -> None:
        bench = Bench()
        line = bench.line()
        line.says(register("roll", ANY))
        calling = bench.call(depth=3)
        await bench.settle()
        line.says(execute("e1", "Ours"))
        await bench.settle()
        line.says(completed("c1"))
        await calling
        line.says(execute("e2", "Ours"))
        await bench.settle()
        ended = [event for event in bench.events.published if isinstance(event, CallFinished)]
        assert [(event.call.tool, event.context.depth) for event in ended] == [("Ours", 3), ("roll", 3), ("Ours", 0)]

    run(main())


def test_a_stop_ends_runs_of_our_own_tools_too() -> None:
    async def main() -> None:
        bench = Bench()
        bench.ours.gate.clear()
        line = bench.line()
        line.says(execute("e1", "Ours"))
        await bench.settle()
        assert bench.clients.running() == 1
        await bench.clients.stop()
        assert line.closed == 1001
        bench.assert_empty()
        with pytest.raises(ShutdownError):
            bench.line()

    run(main())


def test_what_is_nested_deeper_than_all_parts_can_write_is_refused() -> None:
    async def main() -> None:
        bench = Bench()
        line = bench.line()
        line.says(register("roll", ANY))
        for depth, taken in ((240, True), (300, False), (900, False)):
            line.heard()
            deep = "[" * depth + "]" * depth
            line.says('{"type":"execute_tool","data":{"executionId":"e1","name":"roll","args":{"a":' + deep + "}}}")
            await bench.settle()
            if not taken:
                assert refusal(only(line)) == "INVALID_ARGUMENTS"
                line.says(execute())
                await bench.settle()
            assert "execute_tool" in kinds(line)
            line.says('{"type":"tool_execution_completed","data":{"executionId":"e1","result":' + deep + "}}")
            last = only(line)
            assert last["type"] == "tool_execution_completed" if taken else failure(last)[0] == "TOOL_EXECUTION_FAILED"
            await bench.settle()

    run(main())


def test_a_guard_that_does_not_mind_being_cancelled_lets_nothing_through() -> None:
    class Stubborn:
        async def check(self, spec: Any, call: Any, context: Any) -> None:
            del spec, call, context
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def main() -> None:
        bench = Bench(guards=(Stubborn(),))
        owner, caller = bench.line(), bench.line()
        owner.says(register("roll", ANY))
        caller.says(execute())
        await bench.settle()
        caller.says(frame("cancel_execution", executionId="e1"))
        await bench.settle()
        assert "execute_tool" not in kinds(owner)
        assert [one["type"] for one in caller.heard()][-1] == "tool_execution_failed"
        assert bench.clients.running() == 0

    run(main())


def test_a_snapshot_is_only_for_who_asks() -> None:
    async def main() -> None:
        bench = Bench()
        assert kinds(bench.line("1")) == ["tools_list"]
        assert kinds(bench.line("true")) == []

    run(main())


# ---------------------------------------------------------------------- any frames at all

KEYS = ("type", "data", "requestId", "name", "schema", "args", "executionId", "result", "error", "timeoutMs", "code")
TYPES = (
    "register_tool",
    "unregister_tool",
    "list_tools",
    "execute_tool",
    "tool_execution_completed",
    "tool_execution_failed",
    "cancel_execution",
)
words = st.sampled_from(("roll", "Ours", "e1", "e2", "", "object", "array", "string", "\ud83d", "a\x00"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=8,
)
schemas = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("object", "string", "number", "integer", "null", "x"))},
        optional={"minLength": json_values, "pattern": json_values, "enum": json_values, "required": json_values},
    ),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"minItems": json_values})
        | st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(words, inner, max_size=2)})
    ),
    max_leaves=4,
)
frames = (
    st.fixed_dictionaries(
        {"type": st.sampled_from(TYPES) | json_values},
        optional={
            "data": st.fixed_dictionaries(
                {},
                optional={
                    "name": words | json_values,
                    "schema": schemas | json_values,
                    "executionId": words | json_values,
                    "args": st.just({}) | json_values,
                    "result": json_values,
                    "error": json_values,
                    "timeoutMs": json_values,
                },
            )
            | json_values,
            "requestId": json_values,
        },
    )
    | json_values
    | st.text()
    | st.binary(max_size=20)
)


def awaited(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


@settings(max_examples=120)
@given(st.lists(st.tuples(st.integers(0, 2), frames), max_size=15))
def test_no_frame_ends_a_connection_and_nothing_is_left_in_the_end(sent: list[tuple[int, Any]]) -> None:
    async def main() -> None:
        bench = Bench()
        lines = [bench.line() for _ in range(3)]
        for number, message in sent:
            before = [len(line.frames) for line in lines]
            lines[number].says(message)
            assert len(lines[number].frames) > before[number]  # every frame is answered
            await asyncio.sleep(0)
        await bench.settle()
        assert [line.closed for line in lines] == [None] * 3
        watcher = bench.line("1")
        listed = only(watcher)["data"]["tools"]
        assert {tool["name"] for tool in listed} == set(bench.clients.tools())
        for line in (*lines, watcher):
            line.leave()
        await bench.settle()
        bench.assert_empty()

    awaited(main())


# ---------------------------------------------------------------------- against a model

Step = tuple[str, int, str, str, bool]
steps = st.tuples(
    st.sampled_from(("register", "unregister", "execute", "execute", "execute", "complete", "fail", "cancel", "leave")),
    st.integers(0, 2),
    st.sampled_from(("a", "b")),
    st.sampled_from(("e1", "e2", "e3")),
    st.booleans(),
)
SIDES = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Model:
    """What three clients must have been told, in as few words as possible."""

    def __init__(self) -> None:
        self.tools: dict[str, int] = {}
        self.runs: dict[str, tuple[int | None, int]] = {}
        self.heard: list[list[str]] = [[], [], []]

    def to_all(self, words: str) -> None:
        for heard in self.heard:
            heard.append(words)

    def step(self, step: Step) -> None:
        what, client, name, run_id, good = step
        own, run = self.heard[client], self.runs.get(run_id)
        match what:
            case "register" if self.tools.get(name, client) != client:
                own.append("error TOOL_EXISTS")
            case "register":
                self.tools[name] = client
                self.to_all(f"tool_registered {name}")
            case "unregister" if self.tools.get(name) != client:
                own.append("error TOOL_NOT_FOUND")
            case "unregister":
                del self.tools[name]
                self.to_all(f"tool_unregistered {name} unregistered")
            case "execute" if run is not None:
                own.append("error INVALID_ARGUMENTS")
            case "execute":
                self.to_all(f"tool_execution_started {run_id}")
                if name not in self.tools:
                    self.to_all(f"tool_execution_failed {run_id} TOOL_NOT_FOUND")
                elif not good:
                    self.to_all(f"tool_execution_failed {run_id} INVALID_ARGUMENTS")
                else:
                    self.runs[run_id] = (client, self.tools[name])
                    self.heard[self.tools[name]].append(f"execute_tool {run_id}")
            case "complete" | "fail" if run is None or run[1] != client:
                own.append("error TOOL_NOT_FOUND")
            case "complete":
                del self.runs[run_id]
                self.to_all(f"tool_execution_completed {run_id}")
            case "fail":
                del self.runs[run_id]
                self.to_all(f"tool_execution_failed {run_id} TOOL_EXECUTION_FAILED")
            case "cancel" if run is None or client not in run:
                own.append("error TOOL_NOT_FOUND")
            case "cancel":
                assert run is not None
                del self.runs[run_id]
                self.heard[run[1]].append(f"execution_cancelled {run_id}")
                self.to_all(f"tool_execution_failed {run_id} TOOL_EXECUTION_FAILED")
            case "leave":
                for lost in [one for one, (_, owner) in self.runs.items() if owner == client]:
                    del self.runs[lost]
                    self.to_all(f"tool_execution_failed {lost} TOOL_EXECUTION_FAILED")
                self.runs = {
                    one: (None if caller == client else caller, owner) for one, (caller, owner) in self.runs.items()
                }
                for gone in [one for one, owner in self.tools.items() if owner == client]:
                    del self.tools[gone]
                    self.to_all(f"tool_unregistered {gone} disconnected")
                own.clear()


def message(step: Step) -> Any:
    what, _, name, run_id, good = step
    return {
        "register": register(name, SIDES),
        "unregister": frame("unregister_tool", name=name),
        "execute": execute(run_id, name, args={"n": 1 if good else "x"}),
        "complete": completed(run_id),
        "fail": frame("tool_execution_failed", executionId=run_id),
        "cancel": frame("cancel_execution", executionId=run_id),
    }[what]


def in_words(one: Any) -> str:
    data = one["data"]
    parts = [one["type"], data.get("executionId") or data.get("name"), data.get("reason")]
    if one["type"] == "error":
        parts = ["error"]
    code = (one.get("error") or data.get("error") or {}).get("code")
    return " ".join(part for part in (*parts, code) if part)


@settings(max_examples=150)
@given(st.lists(steps, max_size=30))
def test_everybody_is_told_what_a_small_model_says(walk: list[Step]) -> None:
    """WS-5, WS-6, WS-8 - WS-14, WS-19, over random walks of three clients."""

    async def main() -> None:
        bench, model = Bench(), Model()
        lines = [bench.line() for _ in range(3)]
        for step in walk:
            model.step(step)
            if step[0] == "leave":
                lines[step[1]].leave()
                lines[step[1]] = bench.line()
            else:
                lines[step[1]].says(message(step))
            await bench.settle()
            for line, expected in zip(lines, model.heard, strict=True):
                assert [in_words(one) for one in line.heard()] == expected
                expected.clear()
            assert bench.clients.running() == len(model.runs)
            assert set(bench.clients.tools()) == set(model.tools)
        for line in lines:
            line.leave()
        await bench.settle()
        bench.assert_empty()
        ended = [event for event in bench.events.published if isinstance(event, CallFinished)]
        assert len({event.call.id for event in ended}) == len(ended)

    awaited(main())
