"""Who takes a call: the pure choice, and pools of real connections (D60)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.extend import CallContext, Door, ErrorKind, ToolCall, ToolCommand, ToolSpec
from app.hub.nodes.pools import LATENCY_STEP, Load, Offer, least_busy, pool_of, schema_of
from tests.hub.nodes.wire_nodes import call, main_server, manifest, names, node, until
from tests.server import run

LOADS = st.builds(
    Load,
    running=st.integers(0, 5),
    capacity=st.none() | st.integers(1, 4),
    latency=st.none() | st.floats(0, 0.1),
    last=st.integers(0, 9),
)


def share(load: Load) -> float:
    return load.running / (load.capacity or 1)


@given(st.lists(LOADS, min_size=1, max_size=8))
def test_nobody_takes_a_call_while_another_is_less_busy(loads: list[Load]) -> None:
    chosen = loads[least_busy(loads)]
    assert share(chosen) == min(map(share, loads))
    tied = [load for load in loads if share(load) == share(chosen)]
    measured = [load.latency for load in tied if load.latency is not None]
    if measured:
        assert chosen.latency is not None
        assert chosen.latency <= min(measured) + LATENCY_STEP
    else:
        assert chosen.last == min(load.last for load in tied)


@given(st.integers(1, 6), st.integers(1, 5))
def test_idle_nodes_take_turns(count: int, rounds: int) -> None:
    last = [0] * count
    taken = []
    for turn in range(1, count * rounds + 1):
        chosen = least_busy([Load(0, None, 0.001, mark) for mark in last])
        last[chosen] = turn
        taken.append(chosen)
    assert taken == list(range(count)) * rounds


@given(st.integers(1, 6), st.integers(1, 40))
def test_work_that_lasts_spreads_by_capacity(count: int, calls: int) -> None:
    capacities = [1 + index % 3 for index in range(count)]
    running = [0] * count
    for _ in range(calls):
        running[least_busy([Load(busy, room) for busy, room in zip(running, capacities, strict=True)])] += 1
    shares = [busy / room for busy, room in zip(running, capacities, strict=True)]
    assert max(shares) - min(shares) <= 1


def spec(description: str = "d", *, timeout: float = 1, display: str = "", **fields: Any) -> ToolSpec:
    return ToolSpec("T", "", display, (ToolCommand("run", "run", description, **fields),), timeout=timeout)


def test_a_pool_is_of_those_that_are_called_alike() -> None:
    one = {"type": "object", "properties": {"a": {"type": "string"}}}
    other = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert schema_of(spec("d", timeout=1, display="A")) == schema_of(spec("d\n", timeout=2, display="B"))
    assert schema_of(spec("d", parameters=one)) == schema_of(spec("other words", parameters=dict(one), example="e"))
    for different in (spec("other"), spec("d", parameters=one), spec("d", typed=True)):
        assert schema_of(spec("d")) != schema_of(different)
    assert schema_of(spec("d", parameters=one)) != schema_of(spec("d", parameters=other))


@given(st.lists(st.sampled_from("abc"), max_size=8))
def test_the_longest_member_decides_and_nobody_is_lost(texts: list[str]) -> None:
    offers = [Offer(number, spec(text), schema_of(spec(text))) for number, text in enumerate(texts)]
    pool = pool_of(offers)
    if pool is None:
        assert not texts
        return
    assert pool.spec is offers[0].spec
    assert [offer.node for offer in pool.members] == [n for n, text in enumerate(texts) if text == texts[0]]
    assert sorted(offer.node for offer in (*pool.members, *pool.outside)) == list(range(len(texts)))


def test_calls_spread_over_the_nodes_of_a_pool(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "a", "T") as a,
            node(server, "b", "T") as b,
            node(server, "c", "T") as c,
        ):
            running = [asyncio.create_task(call(server, "T")) for _ in range(6)]
            for far in (a, b, c):
                for request in [await far.asked(), await far.asked()]:
                    await far.answer(request, 1)
            assert all(result.ok for result in await asyncio.gather(*running))

    run(main())


def test_another_schema_stays_out_of_the_pool_and_is_reached_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        other = manifest("T", capabilities={"invocationCommands": [{"command": "walk", "description": "d"}]})
        async with (
            main_server(tmp_path) as server,
            node(server, "a", "T") as a,
            node(server, "b", other) as b,
            a.answering(lambda _: "a"),
            b.answering(lambda _: "b"),
        ):
            for _ in range(3):
                assert (await call(server, "T")).structured == {"original_plugin_output": "a"}
            assert (await call(server, "b#T")).structured == {"original_plugin_output": "b"}
            await a.register("a")
            assert (await call(server, "T")).structured == {"original_plugin_output": "b"}

    run(main())
    assert "b#<tool>: T" in caplog.text


def test_a_label_addresses_the_nodes_that_have_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "plain", "T") as plain,
            node(server, "one", "T", labels=["gpu"]) as one,
            node(server, "two", manifest("T", labels=["gpu", "big"]), "U") as two,
        ):
            # Both at once: of calls that come one by one, a node that was slow once would get none.
            running = [asyncio.create_task(call(server, "gpu#T")) for _ in range(2)]
            for far in (one, two):
                await far.answer(await far.asked(), 1)
            assert all(result.ok for result in await asyncio.gather(*running))
            async with (
                plain.answering(lambda _: "plain"),
                one.answering(lambda _: "one"),
                two.answering(lambda _: "two"),
            ):

                async def said(tool: str) -> Any:
                    return (await call(server, tool)).structured["original_plugin_output"]

                assert {await said("big#T") for _ in range(2)} == {"two"}
                assert await said("one#T") == "one"
                for nobody in ("gpu#U", "big#Nope", "#T", "nope#T", "one#", "one#T#T"):
                    assert (await call(server, nobody)).error_kind is ErrorKind.UNKNOWN_TOOL

    run(main())


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_call_of_a_lost_node_goes_on_elsewhere_only_if_it_may_be_repeated(tmp_path: Path, idempotent: bool) -> None:
    async def main() -> None:
        tool = manifest("T", idempotent=idempotent)
        async with (
            main_server(tmp_path) as server,
            node(server, "a", tool) as a,
            node(server, "b", tool) as b,
            b.answering(lambda _: "b") as came,
        ):
            running = asyncio.create_task(call(server, "T"))
            await a.asked()
            a.connection.transport.abort()
            result = await running
            if idempotent:
                assert result.structured == {"original_plugin_output": "b"}
            else:
                assert result.error_kind is ErrorKind.EXECUTION
                assert "may have been carried out" in result.message
            assert len(came) == int(idempotent)

    run(main())


def test_a_node_that_is_full_passes_calls_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hub.nodes.link.MAX_CALLS", 1)

    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "a", manifest("T", maxRunning=9), "Slow") as a,
            node(server, "b", manifest("T", maxRunning=1)) as b,
            b.answering(lambda _: "b"),
        ):
            slow = asyncio.create_task(call(server, "Slow"))
            request = await a.asked()
            for _ in range(3):
                assert (await call(server, "T")).structured == {"original_plugin_output": "b"}
            await a.answer(request, 1)
            assert (await slow).ok

    run(main())


def test_a_tool_that_is_lost_while_somebody_is_asked_is_a_clear_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server:
            async with node(server, "a", "T"):
                found = server.services.nodes.tools()["T"]
            await until(lambda: not names(server))
            asked = ToolCall("1", "T", {})
            result = await server.services.nodes.call(found, asked, CallContext("t", Door.AGENT), lambda **_: None)
            assert result.message == "Distributed server node:a is not connected or ready."

    run(main())


def test_a_deadline_of_the_caller_shortens_a_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "a", "T"):
            context = CallContext("t", Door.AGENT, deadline=asyncio.get_running_loop().time() + 0.03)
            result = await server.services.router.call(ToolCall("1", "T", {}), context)
            assert result.error_kind is ErrorKind.TIMEOUT

    run(main())


def test_a_pool_of_one_name_does_not_log_at_each_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "app.hub")

    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "a", "T") as a, a.answering(lambda _: 1):
            await call(server, "T")
            before = len([record for record in caplog.records if record.name.startswith("app.hub")])
            for _ in range(5):
                await call(server, "T")
            assert len([record for record in caplog.records if record.name.startswith("app.hub")]) == before

    run(main())
