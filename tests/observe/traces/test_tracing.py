"""Hearing and writing beside running requests: live settings, limits, faults that hurt nobody."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.errors import NotFoundError
from app.extend import CallStarted, Door, PromptExpanded, TurnStarted
from app.observe.bus import EventBus
from app.observe.traces import collector, writer
from app.observe.traces.database import TracesUnavailableError
from app.observe.traces.store import TraceStore, Wanted
from app.observe.traces.tracing import TraceRules, Tracing
from tests.observe.traces.making import START, Hearing, chat, mask
from tests.server import run


class Bench:
    def __init__(self, home: Path, detail: Any = "full", **rules: Any) -> None:
        self.bus = EventBus()
        self.rules = replace(TraceRules(detail, 86_400.0, 10**9), **rules)
        self.now = START
        self.tracing = Tracing(
            self.bus,
            home / "t.sqlite",
            lambda: self.rules,
            mask,
            writes=True,
            clock=lambda: self.now,
            timer=time.monotonic,
        )

    def chat(self, *ids: str) -> None:
        for id in ids:
            for event in chat(id):
                self.bus.publish(event)

    async def ids(self) -> list[str]:
        return [row.id for row in (await self.tracing.page(Wanted())).rows]


def test_while_traces_are_off_nobody_makes_a_prompt_event_and_a_reload_switches_them_on_and_off(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path, "off")
        await bench.tracing.start()
        assert not bench.bus.wanted(PromptExpanded)
        bench.chat("a")
        bench.rules = replace(bench.rules, detail="metadata")
        bench.chat("b")
        assert bench.bus.wanted(PromptExpanded)
        bench.rules = replace(bench.rules, detail="full")
        bench.chat("c")
        bench.bus.publish(TurnStarted("d", "m", False, None))
        bench.rules = replace(bench.rules, detail="off")
        bench.chat("e")
        assert not bench.bus.wanted(PromptExpanded) and await bench.tracing.running() == []
        assert sorted(await bench.ids()) == ["b", "c"]
        assert [(await bench.tracing.one(id))["detail"] for id in "bc"] == ["metadata", "full"]
        await bench.tracing.stop()

    run(main())


def test_what_was_ended_is_there_after_a_stop_and_old_ones_go_at_the_next_start(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path)
        await bench.tracing.start()
        bench.chat("a", "b")
        await bench.tracing.stop()
        bench.chat("c")
        again = Bench(tmp_path)
        await again.tracing.start()
        assert sorted(await again.ids()) == ["a", "b"]
        again.now += 2 * 86_400
        assert await again.ids() == []  # also while they are not deleted yet
        await again.tracing.stop()
        third = Bench(tmp_path)
        third.now += 2 * 86_400
        await third.tracing.start()
        await third.tracing.settled()
        assert TraceStore(tmp_path / "t.sqlite").count() == 0
        await third.tracing.stop()

    run(main())


def test_a_full_disk_costs_traces_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        bench = Bench(tmp_path)
        await bench.tracing.start()

        def full(self: TraceStore, traces: Any) -> None:
            raise TracesUnavailableError("database or disk is full")

        with monkeypatch.context() as context:
            context.setattr(TraceStore, "add_packed", full)
            bench.chat("a", "b")
            await bench.tracing.settled()
            bench.chat("c")
            await bench.tracing.settled()
        assert bench.tracing.dropped == 3
        assert len([one for one in caplog.records if "cannot be written" in one.message]) == 1
        bench.chat("d")
        assert await bench.ids() == ["d"]
        await bench.tracing.stop()

    run(main())


def test_records_that_come_too_quickly_are_dropped_and_counted_and_large_ones_lose_their_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING_CHARS", 2_500)
    store = TraceStore(tmp_path / "t.sqlite")
    gate, begun = threading.Event(), threading.Event()

    def slow(traces: Any) -> None:
        begun.set()
        gate.wait(10)
        TraceStore.add_packed(store, traces)

    monkeypatch.setattr(store, "add_packed", slow)
    monkeypatch.setattr(writer, "MAX_WAITING", 3)
    writing = writer.TraceWriter(store, mask, lambda: (1e9, 10**9), lambda: START)
    writing.start()
    hearing = Hearing()
    for number in range(8):
        hearing.hear(*chat(str(number)))
        writing.write(hearing.ended[-1])
        if number == 0:
            begun.wait(10)
    gate.set()
    assert writing.settled(10)
    writing.stop()
    assert (writing.kept, writing.dropped) == (4, 4)
    details = [row.detail for row in store.page(Wanted()).rows]
    assert "metadata" in details and "full" in details


def test_chats_beyond_the_limit_are_not_followed_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_RUNNING", 2)
    hearing = Hearing()
    hearing.hear(*[TurnStarted(str(number), "m", False, None) for number in range(5)])
    assert len(hearing.collector.running()) == 2 and hearing.collector.unfollowed == 3


def test_calls_that_never_end_are_forgotten_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_LOOSE", 3)
    hearing = Hearing()
    for number in range(9):
        hearing.hear(CallStarted(f"c{number}", f"c{number}", "X", Door.HUMAN_TOOL, "local", False))
    assert [record.id for record in hearing.collector.running()] == ["c8", "c7", "c6"]


def test_an_event_that_cannot_be_made_into_a_trace_ends_neither_the_thread_nor_the_chat(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path)
        await bench.tracing.start()
        bench.bus.publish(TurnStarted("bad", None, False, None))  # type: ignore[arg-type]
        for event in chat("bad")[1:]:
            bench.bus.publish(event)
        bench.chat("good")
        assert await bench.ids() == ["good"] and bench.tracing.dropped == 1
        with pytest.raises(NotFoundError):
            await bench.tracing.one("bad")
        await bench.tracing.stop()

    run(main())


def test_a_process_that_does_not_own_the_home_keeps_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path)
        bench.tracing._writes = False
        await bench.tracing.start()
        bench.chat("a")
        assert await bench.ids() == [] and not (tmp_path / "t.sqlite").exists()
        await bench.tracing.stop()

    run(main())
