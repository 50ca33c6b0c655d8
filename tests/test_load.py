"""200 streamed turns with tools at once, and all that disturbs them: nothing is lost, swapped or left over."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.demo.script import Framing, Hold, Received, Reply, Send, Step, say
from app.demo.scripted import ScriptedUpstream
from app.extend import (
    BackgroundResult,
    CallFinished,
    Door,
    Event,
    Outcome,
    Reloaded,
    StaticRefreshed,
    TaskFinished,
    TurnFinished,
)
from app.services import plugin_hosts
from bench.conversations import text_of_stream
from bench.processes import offspring
from tests.plugins.modules import write_module
from tests.plugins.watching import descriptors
from tests.reload.files import QUICK, save
from tests.server import HEADERS, Running, call_text, chat_body, running, write_plugin
from tests.waiting import until

TURNS = 200
LONGEST = 60
"""Seconds after which the test hangs."""

MARK = "VCP_TEST_OF_LOAD"

IN_PROCESS = """
import asyncio
class Plugin:
    async def call(self, call, context):
        await asyncio.sleep(0)
        if call.arguments["text"] == "for ever":
            await asyncio.Event().wait()
        return {"said": call.arguments["text"]}
def create(context):
    return Plugin()
"""
IN_A_THREAD = """
class Plugin:
    def call(self, call, context):
        return {"said": call.arguments["text"]}
def create(context):
    return Plugin()
"""
STDIO = """
import json, sys
print(json.dumps({"status": "success", "result": {"said": json.loads(sys.stdin.read())["text"]}}))
"""
BACKGROUND = """
import json, os, sys, urllib.request
said = json.loads(sys.stdin.read())["text"]
print(json.dumps({"status": "success", "result": {"task_id": said, "said": said}}), flush=True)
address = "/".join((os.environ["CALLBACK_BASE_URL"], "Behind", said))
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(urllib.request.Request(address, json.dumps({"message": said}).encode()), timeout=20).close()
"""
CONFIG = ("RunStaticPlugins=true", "MaxRunningTurns=500", "VarLoad=1")
DUE = {
    "taskId": "due",
    "scheduledLocalTime": "2020-01-01",
    "tool_call": {"tool_name": "Thread", "arguments": {"text": "scheduled"}},
}

_VALUE = re.compile(r"value-\d+-\d")


@dataclass(frozen=True, slots=True)
class Conversation:
    """One client's turn: its number, the tools that it calls at once, and how it ends."""

    number: int
    tools: tuple[str, ...]
    end: str = "finish"

    @property
    def values(self) -> list[str]:
        """What its tools are given, and must give back to it and nobody else."""
        return [f"value-{self.number}-{place}" for place in range(len(self.tools))]


def conversations() -> Iterator[Conversation]:
    """A few processes, for they are dear; many in-process calls; some clients that go away, some that interrupt."""
    for number in range(TURNS):
        if number % 20 == 7:
            yield Conversation(number, ("Inside",), "hang up")
        elif number % 20 == 13:
            yield Conversation(number, ("Inside",), "interrupt")
        elif number % 25 == 0:
            yield Conversation(number, ("Process", "Thread", "Inside"))
        elif number % 50 == 1:
            yield Conversation(number, ("Behind", "Inside"))
        else:
            yield Conversation(
                number, (("Inside",), ("Thread",), ("Inside", "Thread"), ("Thread", "Thread"))[number % 4]
            )


def model(plan: Mapping[int, Conversation]) -> Callable[[Received], Reply]:
    """The model: it calls the tools of the conversation that it is asked in, then repeats what they gave."""

    def reply(request: Received) -> Reply:
        messages = request.json["messages"]
        one = plan[int(messages[1]["content"])]
        if len(messages) > 2:
            told = sorted(set(_VALUE.findall(json.dumps(messages[3:]))))
            return told_in_pieces(f"done {one.number}: {' '.join(told)}.")
        if one.end != "finish":
            return told_in_pieces(f"begin {one.number} {call_text('Inside', text='for ever')}", Hold("never"))
        calls = [call_text(tool, text=value) for tool, value in zip(one.tools, one.values, strict=True)]
        return told_in_pieces(f"begin {one.number} {''.join(calls)}")

    return reply


def told_in_pieces(text: str, *before_the_end: Hold) -> Reply:
    """A stream that comes in several writes. No connection is kept for later, so that descriptors can be counted."""
    events = b"".join(step.data for step in say(text, sizes=(40, 3, 90)).streamed().steps if isinstance(step, Send))
    *said, finish, done = events.removesuffix(b"\n\n").split(b"\n\n")
    steps: tuple[Step, ...] = (
        Send(b"".join(event + b"\n\n" for event in said), 700),
        *before_the_end,
        Send(finish + b"\n\n" + done + b"\n\n"),
    )
    return Reply(steps, framing=Framing.CLOSE)


async def converse(server: Running, session: aiohttp.ClientSession, one: Conversation) -> str:
    """The text of the answer; of one that breaks off on purpose what came of it."""
    body = chat_body({"role": "system", "content": "x"}, str(one.number), stream=True, requestId=f"turn {one.number}")
    async with session.post(server.url + "/v1/chat/completions", json=body) as response:
        assert response.status == 200
        if one.end == "finish":
            return text_of_stream(await response.read())
        begin = b""
        while b"TOOL_REQUEST" not in begin:
            begin += await response.content.readany()
        if one.end == "hang up":
            response.close()
            return ""
        asked = {"requestId": f"turn {one.number}"}
        async with session.post(server.url + "/v1/interrupt", json=asked) as answer:
            assert answer.status == 200
        return text_of_stream(begin + await response.read())


@dataclass(frozen=True, slots=True)
class Held:
    """What this process holds: tasks by name, processes that came from it, descriptors (0 where /proc is not)."""

    tasks: Counter[str]
    children: frozenset[int]
    descriptors: int

    @classmethod
    def now(cls, mark: str) -> Held:
        names = Counter(re.sub(r"[\da-f]{8}|\d+", "", task.get_name()) for task in asyncio.all_tasks())
        if sys.platform != "linux":
            return cls(names, frozenset(), 0)
        return cls(names, frozenset(offspring(os.getpid(), f"{MARK}={mark}")), len(descriptors()))

    def more_than(self, other: Held) -> bool:
        return bool(self.tasks - other.tasks or self.children - other.children or self.descriptors > other.descriptors)


async def at_rest(mark: str, before: Held | None = None) -> Held:
    """What is held once it is no more than ``before`` (None: once it has not changed for a while), or at last."""
    seen, calm = Held.now(mark), 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            while seen.more_than(before) if before else calm < 20:
                await asyncio.sleep(0.02)
                now = Held.now(mark)
                calm = calm + 1 if now == seen else 0
                seen = now
    return seen


def test_200_turns_with_tools_at_once_lose_nothing_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue: 200 concurrent streamed turns, nothing lost, no process, task or descriptor left (D24, D27, P43)."""
    monkeypatch.setattr(plugin_hosts, "program_plugins", lambda: tmp_path / "none")
    write_module(tmp_path, "Inside", IN_PROCESS)
    write_module(tmp_path, "Thread", IN_A_THREAD)
    write_plugin(tmp_path, "Process", STDIO)
    write_plugin(tmp_path, "Behind", BACKGROUND, pluginType="asynchronous")
    write_plugin(tmp_path, "Tick", "print('tick')", pluginType="static", refreshIntervalCron="* * * * * *")
    plan = {one.number: one for one in conversations()}
    warm = Conversation(TURNS, ("Process", "Inside", "Thread"))
    mark = secrets.token_hex(8)

    async def main() -> None:
        async with (
            ScriptedUpstream(model({**plan, warm.number: warm})) as up,
            running(tmp_path, up.base_url, config=CONFIG, environ={MARK: mark}, pace=QUICK) as server,
        ):
            events = server.events
            async with clients() as session:
                await converse(server, session, warm)
            await until(lambda: bool(of(events, StaticRefreshed)))
            before = await at_rest(mark)
            counted = numbers(server)
            everything = server.services.events.subscribe(100_000)
            began = len(events)

            texts = await all_at_once(server, tmp_path, plan.values())
            await until(lambda: bool(of(events, TaskFinished) and of(events, Reloaded)))
            await until(
                lambda: len(of(events, BackgroundResult)) == sum("Behind" in one.tools for one in plan.values())
            )
            everything.close()
            happened = events[began:]
            after = await at_rest(mark, before)

            for one in plan.values():
                judge(one, texts[one.number])
            judge_events(plan.values(), happened)
            judge_numbers(plan.values(), counted, numbers(server))
            assert everything.dropped == server.services.events.dropped == 0
            assert after.tasks - before.tasks == Counter()
            assert after.children - before.children == frozenset()
            assert after.descriptors <= before.descriptors

    asyncio.run(asyncio.wait_for(main(), LONGEST))


async def all_at_once(server: Running, home: Path, plan: Collection[Conversation]) -> dict[int, str]:
    """The text of every turn. When a half of them are through, the settings change and a task becomes due."""
    texts: dict[int, str] = {}
    config = home / "config.env"

    async def one_turn(session: aiohttp.ClientSession, one: Conversation) -> None:
        texts[one.number] = await converse(server, session, one)
        if len(texts) == len(plan) // 2:
            save(config, config.read_text("utf-8").replace("VarLoad=1", "VarLoad=2"))
            save(home / "VCPTimedContacts" / "due.json", json.dumps(DUE))

    async with clients() as session, asyncio.TaskGroup() as group:
        for one in plan:
            group.create_task(one_turn(session, one))
    return texts


def judge(one: Conversation, text: str) -> None:
    """A whole answer with the results of its own tools, in the order of its calls, and of no other turn's."""
    if one.end == "hang up":
        return
    assert text.startswith(f"begin {one.number} ")
    if one.end == "finish":
        assert text.endswith(f"done {one.number}: {' '.join(one.values)}.")
        assert set(_VALUE.findall(text)) == set(one.values)


def judge_events(plan: Collection[Conversation], events: list[Event]) -> None:
    """Every turn and every call has one end, the right one."""
    stopped = sum(one.end != "finish" for one in plan)
    assert Counter(event.outcome for event in of(events, TurnFinished)) == {
        Outcome.SUCCESS: len(plan) - stopped,
        Outcome.CANCELLED: stopped,
    }
    called = Counter(tool for one in plan if one.end == "finish" for tool in one.tools)
    calls = of(events, CallFinished)
    assert Counter(event.call.tool for event in calls if event.outcome is Outcome.SUCCESS) == called + Counter(
        ["Thread"]
    )
    assert Counter(event.call.tool for event in calls if event.outcome is not Outcome.SUCCESS) == {"Inside": stopped}
    assert len({event.call.id for event in calls}) == len(calls)
    (task,) = of(events, TaskFinished)
    assert task.error == ""
    assert [event.call.arguments["text"] for event in calls if event.context.door is Door.SCHEDULE] == ["scheduled"]
    (reloaded,) = of(events, Reloaded)
    assert not reloaded.problems
    behind = sorted(
        value for one in plan for tool, value in zip(one.tools, one.values, strict=True) if tool == "Behind"
    )
    assert sorted(event.body["message"] for event in of(events, BackgroundResult)) == behind


def judge_numbers(plan: Collection[Conversation], before: Mapping[str, float], after: Mapping[str, float]) -> None:
    """What ``/metrics`` tells is what happened, and nothing runs any more."""
    stopped = sum(one.end != "finish" for one in plan)
    calls = sum(len(one.tools) for one in plan if one.end == "finish")
    more = {name: after[name] - before.get(name, 0) for name in after}
    assert more['vcp_turns_total{outcome="success",stream="true"}'] == len(plan) - stopped
    assert more['vcp_turns_total{outcome="cancelled",stream="true"}'] == stopped
    assert more['vcp_turn_seconds_count{stream="true"}'] == len(plan)
    assert more["vcp_rounds_total"] == 2 * len(plan) - stopped
    assert sum(count for name, count in more.items() if name.startswith("vcp_tool_calls_total")) == calls + stopped + 1
    assert more['vcp_upstream_attempts_total{upstream="API_URL"}'] == 2 * len(plan) - stopped
    assert more["vcp_tool_calls_skipped_total"] == 0
    for idle in ("vcp_running_turns", 'vcp_upstream_running{upstream="API_URL"}', "vcp_dropped_events_total"):
        assert after[idle] == 0
    for state in ("running", "waiting", "left"):
        assert after[f'vcp_plugin_processes{{state="{state}"}}'] == 0


def numbers(server: Running) -> dict[str, float]:
    lines = server.services.metrics.text().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def of(events: list[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def clients() -> aiohttp.ClientSession:
    """As many connections as there are turns."""
    headers = {name.decode(): value.decode() for name, value in HEADERS.items()}
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers)
