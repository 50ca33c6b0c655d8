"""Tool calls that wait for a person's word, over real sockets and at every door (spec 7.6; B15, D24, D27)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import AsyncExitStack
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from app.config.approval_rules import ApprovalFile, ApprovalRules
from app.extend import (
    ApprovalSettled,
    CallContext,
    CallFinished,
    CallStarted,
    Door,
    ErrorKind,
    Outcome,
    SocketRequest,
    TaskFinished,
    ToolCall,
)
from app.hub.approval import guard as approvals_module
from app.hub.approval.feed import ApprovalFeed
from app.hub.approval.guard import MAX_PENDING, Approvals
from app.hub.clients import ClientType
from app.hub.hub import Hub
from app.observe.bus import EventBus
from tests.hub.approval.approving import (
    CONFIG,
    NOWHERE,
    Tools,
    answers,
    approving,
    asked,
    nothing_of,
    person,
    says,
    settled,
    until,
    wants,
)
from tests.hub.clients import address, connected
from tests.server import Running, call_text, run, running

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])


def finished(server: Running) -> list[CallFinished]:
    return [event for event in server.events if isinstance(event, CallFinished)]


def fed_back(up: Any) -> list[str]:
    return [part["text"] for part in up.bodies[1]["messages"][-1]["content"]]


async def human(server: Running, text: str) -> Any:
    return await server.client.post("/v1/human/tool", content=text, headers={"Content-Type": "text/plain"})


@MODES
def test_a_call_waits_for_a_yes_and_then_runs(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        block = call_text("Danger", path="/tmp/x", maid="Nova")
        async with approving(tmp_path, tools, block, "Done.") as (server, up), person(server) as wire:
            chat = asyncio.create_task(server.chat("go", stream=stream))
            request = await asked(wire)
            seen = time.monotonic()
            assert request["toolName"] == "Danger"
            assert request["maid"] == "Nova"
            assert request["args"] == {"path": "/tmp/x", "maid": "Nova"}
            assert request["source"] == ("stream_loop" if stream else "non_stream_loop")
            assert 299_000 < request["approvalTtlMs"] <= 300_000
            assert request["timestamp"][:10] == request["askedAt"][:10]
            assert tools.calls == []
            assert not any(isinstance(event, CallStarted) for event in server.events)
            unanswered = time.monotonic() - seen
            await says(wire, request["requestId"], True)
            assert await settled(wire) == {
                "requestId": request["requestId"],
                "toolName": "Danger",
                "approved": True,
                "by": server.services.approvals.settled(request["requestId"]).by,  # type: ignore[union-attr]
                "reason": "",
            }
            assert (await chat).status_code == 200
            assert tools.names == ["Danger"]
            assert "Danger said" in fed_back(up)[0]
            (end,) = finished(server)
            assert end.waited >= unanswered > 0, "what a person takes is no part of the tool's own time"

    run(main())


@MODES
def test_a_rejected_call_is_told_to_the_model_with_the_reason(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools, call_text("Danger"), "I see.") as (server, up), person(server) as wire:
            chat = asyncio.create_task(server.chat("go", stream=stream))
            await answers(wire, False, "too dangerous")
            assert (await chat).status_code == 200
            assert tools.calls == []
            text = fed_back(up)[0]
            value = json.loads(text[text.index("{") :])
            assert value["error_type"] == "approval_rejected"
            assert value["rejected_by_user"] is True
            assert "too dangerous" in value["plugin_error"]

    run(main())


@MODES
def test_a_silent_rejection_leaves_nothing_for_the_model_and_nothing_in_the_reply(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        tools = Tools("Danger", "Echo")
        reply = call_text("Danger") + call_text("Echo")
        rules = ("Danger::SilentReject",)
        async with approving(tmp_path, tools, reply, "On.", rules=rules) as (server, up), person(server) as wire:
            chat = asyncio.create_task(server.chat("go", stream=stream, path="/v1/chatvcp/completions"))
            await answers(wire, False, "no")
            shown = (await chat).text
            (told,) = fed_back(up)
            assert "Echo said" in told
            assert "Danger" not in told
            assert "Echo said" in shown
            assert "rejected" not in shown
            ends = {end.call.tool: end.result for end in finished(server)}
            assert ends["Danger"].error_kind is ErrorKind.REJECTED  # people are told

    run(main())


@MODES
def test_when_all_calls_were_rejected_in_silence_the_turn_ends_as_if_there_were_none(
    tmp_path: Path, stream: bool
) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        rules = ("Danger::SilentReject",)
        block = "Look.\n" + call_text("Danger")
        async with approving(tmp_path, tools, block, rules=rules) as (server, up), person(server) as wire:
            chat = asyncio.create_task(server.chat("go", stream=stream))
            await answers(wire, False)
            answer = await chat
            assert answer.status_code == 200
            assert len(up.bodies) == 1
            assert '"finish_reason":"stop"' in answer.text.replace(" ", "")

    run(main())


def test_a_silent_rule_hides_nothing_of_an_approved_call(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        rules = ("Danger::SilentReject",)
        async with (
            approving(tmp_path, tools, call_text("Danger"), "On.", rules=rules) as (server, up),
            person(server) as wire,
        ):
            chat = asyncio.create_task(server.chat("go"))
            await answers(wire, True)
            await chat
            assert "Danger said" in fed_back(up)[0]

    run(main())


@MODES
def test_without_an_answer_the_call_fails_when_its_time_is_over(tmp_path: Path, stream: bool) -> None:
    """Nobody is connected: it waits all the same, for somebody might come."""

    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools, call_text("Danger"), "On.", timeoutMinutes=0.002) as (server, up):
            assert (await server.chat("go", stream=stream)).status_code == 200
            assert tools.calls == []
            assert "nobody answered in time" in fed_back(up)[0]
            assert finished(server)[0].result.error_kind is ErrorKind.UNANSWERED

    run(main())


def test_other_tools_and_commands_are_not_held(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger", "Echo")
        reply = call_text("Echo") + call_text("Danger", command="Read") + call_text("NoSuchTool")
        async with (
            approving(tmp_path, tools, reply, "On.", rules=("Danger:Delete", "NoSuchTool")) as (server, _),
            person(server) as wire,
        ):
            assert (await server.chat("go")).status_code == 200
            assert sorted(tools.names) == ["Danger", "Echo"]
            assert not any(isinstance(event, ApprovalSettled) for event in server.events)
            await nothing_of(wire, "tool_approval_request")

    run(main())


def test_an_eager_call_waits_while_others_of_the_reply_run(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger", "Echo")
        reply = call_text("Danger") + call_text("Echo")
        async with approving(tmp_path, tools, reply, "On.") as (server, _), person(server) as wire:
            chat = asyncio.create_task(server.chat("go", stream=True))
            request = await asked(wire)
            await until(lambda: tools.names == ["Echo"])
            await says(wire, request["requestId"], True)
            await chat
            assert tools.names == ["Echo", "Danger"]

    run(main())


@pytest.mark.parametrize("approved", [True, False])
def test_people_who_call_a_tool_are_asked_too_and_a_no_blocks_no_address(tmp_path: Path, approved: bool) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools, rules=("Danger::SilentReject",)) as (server, _), person(server) as wire:
            for _ in range(6):  # five failed calls block an address
                answer = asyncio.create_task(human(server, call_text("Danger")))
                request = await answers(wire, approved)
                assert request["source"] == "human_tool"
                got = await answer
                assert got.status_code == (200 if approved else 500)
                if not approved:
                    assert got.json()["error_type"] == "approval_rejected"
                    assert got.json()["rejected_by_user"] is True
            assert len(tools.calls) == (6 if approved else 0)

    run(main())


@pytest.mark.parametrize("approved", [True, False])
def test_archery_calls_are_held_and_the_turn_does_not_wait_for_them(tmp_path: Path, approved: bool) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with (
            approving(tmp_path, tools, call_text("Danger", archery="no_reply")) as (server, _),
            person(server) as wire,
        ):
            assert (await server.chat("go")).status_code == 200
            await answers(wire, approved)
            await until(lambda: bool(finished(server)))
            assert tools.names == (["Danger"] if approved else [])

    run(main())


def test_diary_blocks_are_held(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("DailyNoteWrite")
        diary = "<<<DailyNoteStart>>>\nMaid: Nova\nDate: 2026-01-05\nContent: [08:00] x\n<<<DailyNoteEnd>>>"
        async with (
            approving(tmp_path, tools, diary, rules=("DailyNoteWrite",)) as (server, _),
            person(server) as wire,
        ):
            assert (await server.chat("go")).status_code == 200
            assert (await answers(wire, False))["source"] == "diary_block"
            await until(lambda: bool(finished(server)))
            assert not list((tmp_path / "dailynote").rglob("*.txt"))

    run(main())


@pytest.mark.parametrize("approved", [True, None])
def test_a_scheduled_call_is_held_when_it_is_due_and_not_when_it_is_put_off(
    tmp_path: Path, approved: bool | None
) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        minutes = 5 if approved else 0.002
        async with approving(tmp_path, tools, timeoutMinutes=minutes) as (server, _), person(server) as wire:
            got = await human(server, call_text("Danger", timely_contact="2099-01-01-10:00"))
            assert got.json()["status"] == "scheduled"
            (path,) = (tmp_path / "VCPTimedContacts").glob("*.json")
            task = json.loads(path.read_text())
            path.unlink()
            (tmp_path / "due").write_text(json.dumps({**task, "scheduledLocalTime": "2020-01-01T08:00:00+08:00"}))
            (tmp_path / "due").rename(path.with_name("again.json"))
            request = await asked(wire)
            assert request["source"] == "schedule"
            if approved:
                await says(wire, request["requestId"], True)
            await until(lambda: any(isinstance(event, TaskFinished) for event in server.events))
            (told,) = [event for event in server.events if isinstance(event, TaskFinished)]
            assert bool(told.error) is not bool(approved)
            assert len(tools.calls) == bool(approved)
            failed = [path.name for path in (tmp_path / "VCPTimedContacts" / "failed").glob("*.json")]
            assert bool(failed) is not bool(approved)

    run(main())


@pytest.mark.parametrize("door", list(Door))
def test_no_door_leads_past_the_guard(tmp_path: Path, door: Door) -> None:
    """Whatever the door, the router asks; tools of nodes, sockets and agents enter there as all others do."""

    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            call = asyncio.create_task(
                server.services.router.call(ToolCall("c-1", "Danger", {}), CallContext("t-1", door))
            )
            assert (await answers(wire, False))["source"] == door.value
            assert (await call).error_kind is ErrorKind.REJECTED
            assert tools.calls == []

    run(main())


def test_the_first_answer_wins_the_others_are_told_and_a_later_one_privately(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B15: whoever has the key may decide, and the log says who did."""
    caplog.set_level(logging.INFO)

    async def main() -> None:
        tools = Tools("Danger")
        async with (
            approving(tmp_path, tools) as (server, _),
            person(server) as first,
            person(server) as second,
        ):
            call = asyncio.create_task(human(server, call_text("Danger")))
            request = await asked(first)
            assert (await asked(second))["requestId"] == request["requestId"]
            await says(second, request["requestId"], True)
            told = await settled(first)
            assert told == await settled(second)
            assert told["approved"] is True
            assert told["by"].startswith("VCPLog client client-")
            assert told["by"].endswith("from 127.0.0.1")
            assert (await call).status_code == 200
            await says(first, request["requestId"], False)
            assert await settled(first) == {**told, "late": True}
            await nothing_of(second, "tool_approval_settled")
            assert tools.names == ["Danger"]
            assert f"approved by {told['by']}" in caplog.text

    run(main())


@pytest.mark.parametrize(
    ("request_id", "approved"),
    [("nothing-of-this", True), ("", True), (7, True), (None, True), ("REAL", "true"), ("REAL", 1), ("REAL", None)],
)
def test_an_answer_that_is_none_decides_nothing(tmp_path: Path, request_id: Any, approved: Any) -> None:
    async def main() -> None:
        async with approving(tmp_path, Tools("Danger")) as (server, _), person(server) as wire:
            call = asyncio.create_task(human(server, call_text("Danger")))
            real = (await asked(wire))["requestId"]
            await says(wire, real if request_id == "REAL" else request_id, approved)
            told = await settled(wire)
            assert told["late"] is True and told["approved"] is None and " / " in told["reason"]
            for message in ({"type": "tool_approval_response"}, {"type": "tool_approval_response", "data": [real]}):
                await wire.send(message)
                assert (await settled(wire))["late"] is True
            await says(wire, real, False)
            assert (await call).status_code == 500

    run(main())


@pytest.mark.parametrize("path", ["/vcpinfo", "/vcp-distributed-server", "/vcp-chrome-control", "/vcp-admin-panel"])
def test_only_clients_of_the_log_decide_and_are_asked(tmp_path: Path, path: str) -> None:
    async def main() -> None:
        async with (
            approving(tmp_path, Tools("Danger")) as (server, _),
            person(server) as wire,
            connected(address(server.url, path)) as other,
        ):
            call = asyncio.create_task(human(server, call_text("Danger")))
            request = await asked(wire)
            await says(other, request["requestId"], True)
            await (await other.connection.ping())
            assert server.services.approvals.find(request["requestId"]) is not None
            await nothing_of(other, "tool_approval_request")
            await says(wire, request["requestId"], False)
            await call

    run(main())


def test_who_comes_later_or_again_is_asked_with_the_time_that_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _):
            calls = [asyncio.create_task(human(server, call_text("Danger", n=str(n)))) for n in range(2)]
            await until(lambda: len(server.services.approvals.pending()) == 2)
            async with person(server) as wire:
                before = [await asked(wire), await asked(wire)]
            async with person(server) as wire:
                again = [await asked(wire), await asked(wire)]
                assert [one["requestId"] for one in again] == [one["requestId"] for one in before]
                assert [one["args"] for one in again] == [one["args"] for one in before]
                assert [one["askedAt"] for one in again] == [one["askedAt"] for one in before]
                assert again[0]["approvalTtlMs"] <= before[0]["approvalTtlMs"]
                assert again[0]["timestamp"] >= before[0]["timestamp"]
                for one in again:
                    await says(wire, one["requestId"], True)
                await asyncio.gather(*calls)
            async with person(server) as wire:
                await nothing_of(wire, "tool_approval_request")
            assert len(tools.calls) == 2

    run(main())


@MODES
def test_an_interrupt_ends_the_waiting_and_clients_are_told(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools, call_text("Danger")) as (server, _), person(server) as wire:
            chat = asyncio.create_task(server.chat("go", stream=stream, requestId="r-1"))
            request = await asked(wire)
            await server.client.post("/v1/interrupt", json={"requestId": "r-1"})
            told = await settled(wire)
            assert (told["requestId"], told["approved"]) == (request["requestId"], None)
            await chat
            assert server.services.approvals.pending() == ()
            await says(wire, request["requestId"], True)
            assert (await settled(wire))["late"] is True
            assert tools.calls == []
            assert finished(server)[0].outcome is Outcome.CANCELLED

    run(main())


def test_a_client_that_hangs_up_ends_the_waiting(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools, call_text("Danger")) as (server, _), person(server) as wire:
            async with server.client.stream("POST", "/v1/chat/completions", json=STREAMED) as answer:
                await anext(answer.aiter_bytes())
                await asked(wire)
            assert (await settled(wire))["approved"] is None
            assert tools.calls == []

    run(main())


STREAMED = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}]}


def test_a_stop_ends_the_waiting_and_clients_are_told_before_they_lose_the_server(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        wants(tmp_path, "Danger")
        config = (*CONFIG, "ShutdownSeconds=0")
        async with AsyncExitStack() as clients:
            async with running(tmp_path, NOWHERE, config=config, sources=[tools]) as server:
                wire = await clients.enter_async_context(connected(address(server.url)))
                call = asyncio.create_task(
                    server.services.router.call(ToolCall("c", "Danger", {}), CallContext("t", Door.AGENT))
                )
                await asked(wire)
            assert (await settled(wire))["approved"] is None
            result = await call
            assert result.error_kind is ErrorKind.UNANSWERED
            assert "the server stops" in result.message
            assert tools.calls == []

    run(main())


def test_a_changed_file_counts_for_the_next_call_and_pending_ones_stay(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            held = asyncio.create_task(human(server, call_text("Danger")))
            request = await asked(wire)
            wants(tmp_path, enabled=False)
            assert (await human(server, call_text("Danger"))).status_code == 200
            assert not held.done()
            await says(wire, request["requestId"], True)
            assert (await held).status_code == 200
            wants(tmp_path, approveAll=True)
            again = asyncio.create_task(human(server, call_text("Danger")))
            await answers(wire, False)
            assert (await again).status_code == 500

    run(main())


def test_the_code_is_asked_for_before_a_person_is(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        wants(tmp_path, "Danger")
        config = (*CONFIG, "VCPToolCode=true")
        async with running(tmp_path, NOWHERE, config=config, sources=[tools]) as server, person(server) as wire:
            assert (await human(server, call_text("Danger"))).status_code == 500
            await nothing_of(wire, "tool_approval_request")

    run(main())


def test_a_person_sees_all_but_codes_and_pictures(tmp_path: Path) -> None:
    async def main() -> None:
        tools = Tools("Danger")
        block = call_text(
            "Danger",
            tool_password="123456",
            image="data:image/png;base64," + "A" * 4000,
            text="x y" * 100_000,
            key="k1",
        )
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            call = asyncio.create_task(human(server, block))
            request = await answers(wire, True)
            args = request["args"]
            assert "tool_password" not in args
            assert args["key"] == "k1"
            assert args["image"].startswith("data:image/png;base64,[sha256 ")
            assert "characters are left out here" in args["text"]
            assert len(json.dumps(args)) < 120_000
            await call
            assert len(tools.calls[0][1]["text"]) == 300_000  # the tool gets all of it

    run(main())


def test_privacy_protection_masks_what_people_and_models_see(tmp_path: Path) -> None:
    secret = "sk-abcdefghijklmnop1234"

    async def main() -> None:
        tools = Tools("Danger")
        private = {"privacyProtection": {"enabled": True}}
        block = call_text("Danger", api_key="hunter2", text=f"use {secret}")
        async with approving(tmp_path, tools, block, "On.", **private) as (server, up), person(server) as wire:
            chat = asyncio.create_task(server.chat("go"))
            request = await answers(wire, False, f"never {secret}")
            assert request["args"] == {"api_key": "***", "text": "use ***"}
            await chat
            assert secret not in fed_back(up)[0]
            assert "never ***" in fed_back(up)[0]

    run(main())


def test_what_clients_must_not_read_is_taken_out_of_every_message() -> None:
    told: list[Any] = []

    class Socket:
        address, waiting = "::1", 0

        def send(self, text: str | bytes) -> bool:
            told.append(json.loads(text))
            return True

        def close(self, code: int = 1000, reason: str = "") -> None:
            """Nobody hangs up here."""

        async def ping(self, seconds: float) -> float | None:
            return 0.0

    def clean(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("own-key", "***"))

    async def main() -> None:
        rules = ApprovalRules(enabled=True, everything=True)
        events = EventBus()
        hub = Hub(
            new_id=lambda kind: kind, clock=lambda: 0.0, max_message_bytes=lambda _kind: 1000, keys=lambda _kind: ()
        )
        guard = Approvals(lambda: rules, events, clock=lambda: 0.0, new_id=lambda kind: f"{kind}-1")
        guard.open = True
        events.listen(ApprovalFeed(hub, guard, clock=lambda: 0.0, zone=lambda: UTC, clean=clean).heard)
        hub.handler(ClientType.VCP_LOG, SocketRequest("/VCPlog", "::1")).opened(Socket())
        spec = Tools("Danger").tools()["Danger"]
        call = ToolCall("c", "Danger", {"text": "the own-key"})
        held = asyncio.create_task(guard.check(spec, call, CallContext("t", Door.AGENT)))
        await until(lambda: len(told) == 2)
        guard.answer("approval-1", False, by="x", reason="own-key")
        await held
        assert [message["type"] for message in told] == [
            "connection_ack",
            "tool_approval_request",
            "tool_approval_settled",
        ]
        assert told[1]["data"]["args"] == {"text": "the ***"}
        assert told[2]["data"]["reason"] == "***"

    run(main())


def test_more_calls_than_may_wait_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_PENDING >= 100
    monkeypatch.setattr(approvals_module, "MAX_PENDING", 2)
    monkeypatch.setattr(approvals_module, "MAX_SETTLED", 1)

    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _), person(server) as wire:
            held = [asyncio.create_task(human(server, call_text("Danger"))) for _ in range(2)]
            requests = [await asked(wire), await asked(wire)]
            refused = await human(server, call_text("Danger"))
            assert refused.status_code == 500
            assert "2 calls wait for approval already" in refused.json()["plugin_execution_error"]
            for request in requests:
                await says(wire, request["requestId"], False)
            assert [answer.status_code for answer in await asyncio.gather(*held)] == [500, 500]
            assert server.services.approvals.settled(requests[0]["requestId"]) is None  # only so many are remembered

    run(main())


def test_requests_without_number_do_not_flood_a_client(tmp_path: Path) -> None:
    """Whoever connects is told of all calls that wait, in less than his queue may hold (P81)."""

    async def main() -> None:
        tools = Tools("Danger")
        async with approving(tmp_path, tools) as (server, _):
            text = "a 汉 " * 50_000
            calls = [
                asyncio.create_task(
                    server.services.router.call(
                        ToolCall(f"c-{n}", "Danger", {"n": n, "text": text}, maid="M" * 100_000),
                        CallContext("t", Door.AGENT),
                    )
                )
                for n in range(MAX_PENDING)
            ]
            await until(lambda: len(server.services.approvals.pending()) == MAX_PENDING)
            async with person(server) as wire:
                requests = [await asked(wire) for _ in calls]
                assert [request["args"]["n"] for request in requests] == list(range(MAX_PENDING))
                assert all("left out here" in request["args"]["text"] for request in requests)
                assert {request["maid"] for request in requests} == {"M" * 200}
                assert sum(len(json.dumps(request["args"], ensure_ascii=False)) for request in requests) < 700_000
            listed = (await server.client.get("/v1/approvals")).text
            assert len(json.loads(listed)["approvals"]) == MAX_PENDING
            assert len(listed) < 6_000_000
            for pending in server.services.approvals.pending():
                server.services.approvals.answer(pending.id, False, by="the test")
            assert {(await call).error_kind for call in calls} == {ErrorKind.REJECTED}

    run(main())


def test_when_the_server_has_stopped_or_nobody_can_be_asked_a_call_is_refused_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        wants(tmp_path, "Danger")
        rules = ApprovalFile(tmp_path, lambda: 0.0).rules
        guard = Approvals(rules, EventBus(), clock=lambda: 0.0, new_id=lambda kind: f"{kind}-1")
        spec = Tools("Danger").tools()["Danger"]

        async def checked() -> Any:
            return await guard.check(spec, ToolCall("c", "Danger", {}), CallContext("t", Door.NODE))

        refused = await checked()
        assert (refused.error_kind, "vcp approve" in refused.message) == (ErrorKind.REFUSED, True)
        guard.open = True
        await guard.stop()
        refused = await checked()
        assert refused.error_kind is ErrorKind.UNANSWERED
        await guard.start()
        past = CallContext("t", Door.STREAM, deadline=asyncio.get_running_loop().time() - 1)
        refused = await guard.check(spec, ToolCall("c", "Danger", {}), past)
        assert refused is not None and refused.error_kind is ErrorKind.UNANSWERED
        assert guard.pending() == ()

    run(main())


def test_a_broken_file_is_told_at_the_start_and_closes_the_door(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        tools = Tools("Echo")
        (tmp_path / "toolApprovalConfig.json").write_text('{"enabled": true,\n"approvalList": [')
        async with running(tmp_path, NOWHERE, config=CONFIG, sources=[tools]) as server, person(server) as wire:
            assert "toolApprovalConfig.json:2: " in caplog.text
            call = asyncio.create_task(human(server, call_text("Echo")))
            await answers(wire, True)
            assert (await call).status_code == 200

    run(main())


def test_with_debug_mode_each_decision_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with approving(tmp_path, Tools("Echo"), debugMode=True) as (server, _):
            await human(server, call_text("Echo", text="private words"))

    run(main())
    assert "of 'Echo': no rule is about it" in caplog.text
    assert "private words" not in caplog.text
