"""Binary data of a call's event is a digest in queues, and whole for those who listen at once."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import Any

import pytest

from app.extend import (
    ApprovalAsked,
    CallContext,
    CallFinished,
    Door,
    Event,
    FirstToken,
    Outcome,
    TaskFinished,
    ToolCall,
    ToolResult,
)
from app.observe.bus import EventBus
from app.observe.digests import digested
from app.protocol.digests import MAX_DEPTH

PICTURE = "data:image/png;base64," + "QUJD" * 1000


def finished(result: ToolResult, **arguments: Any) -> CallFinished:
    call = ToolCall("c", "Draw", arguments, texts=arguments)
    return CallFinished("t", call, CallContext("t", Door.STREAM), None, Outcome.SUCCESS, result, 0.0, 0.0)


def shown(result: ToolResult, **arguments: Any) -> CallFinished:
    event = digested(finished(result, **arguments))
    assert isinstance(event, CallFinished)
    return event


@pytest.mark.parametrize(
    ("text", "head"), [(PICTURE, "data:image/png;base64,"), ("QUJD" * 300 + "QQ==", ""), ("-_" * 600, "")]
)
def test_base64_gives_way_to_its_digest_wherever_it_is(text: str, head: str) -> None:
    digest = f"{head}[sha256 {hashlib.sha256(text.encode()).hexdigest()}, {len(text)} characters]"
    part = {"type": "image_url", "image_url": {"url": text}}
    event = shown(ToolResult({"a": [{"b": text}], "n": 1}, ({"type": "text", "text": "x"}, part), message=text), p=text)
    assert event.result.structured == {"a": [{"b": digest}], "n": 1}
    assert event.result.parts == ({"type": "text", "text": "x"}, {**part, "image_url": {"url": digest}})
    assert event.result.message == digest
    assert event.call.arguments == event.call.texts == {"p": digest}


@pytest.mark.parametrize("text", ["", "plain words " * 500, "汉字" * 2000, "QUJD", "see data:image/png;base64,QUJD"])
def test_all_other_events_stay_the_very_same(text: str) -> None:
    event = finished(ToolResult({"a": text}, ({"type": "text", "text": text},)), p=text)
    assert digested(event) is event
    token = FirstToken("t", 1)
    assert digested(token) is token


def test_a_call_that_waits_for_approval_holds_no_picture_in_a_queue() -> None:
    call = ToolCall("c", "Draw", {"p": PICTURE})
    event = digested(ApprovalAsked("a", call, CallContext("t", Door.STREAM), 0.0, 1.0))
    assert isinstance(event, ApprovalAsked)
    assert event.call.arguments["p"].startswith("data:image/png;base64,[sha256 ")
    same = ApprovalAsked("a", replace(call, arguments={"p": "x"}), CallContext("t", Door.STREAM), 0.0, 1.0)
    assert digested(same) is same


def test_results_of_scheduled_calls_are_treated_like_those_of_others() -> None:
    event = digested(TaskFinished("t", "Draw", 0.0, ToolResult(PICTURE)))
    assert isinstance(event, TaskFinished)
    assert event.result is not None
    assert event.result.structured.startswith("data:image/png;base64,[sha256 ")
    for same in (TaskFinished("t", "Draw", 0.0, ToolResult("plain")), TaskFinished("t", "", 0.0, None, "no tool")):
        assert digested(same) is same


def test_what_is_nested_too_deep_is_left_out() -> None:
    deep: Any = PICTURE
    for _ in range(5000):
        deep = [deep]
    found: Any = shown(ToolResult(deep)).result.structured
    for _ in range(MAX_DEPTH):
        (found,) = found
    assert found == "…"


def test_listeners_get_the_picture_and_subscribers_its_digest() -> None:
    async def main() -> None:
        bus, heard = EventBus(), list[Event]()
        bus.listen(heard.append)
        subscription = bus.subscribe()
        event = finished(ToolResult(PICTURE))
        bus.publish(event)
        assert heard == [event]
        queued = await subscription.next()
        assert isinstance(queued, CallFinished)
        assert "QUJD" not in queued.result.structured

    asyncio.run(main())


def test_a_picture_inside_a_text_is_a_digest_and_the_text_around_it_stays() -> None:
    text = f"Here: ![cat]({PICTURE}) and ![dot](data:image/png;base64,QUJD)."
    shown = digested(finished(ToolResult(structured={"text": text})))
    assert isinstance(shown, CallFinished)
    digest = hashlib.sha256(PICTURE.partition(",")[2].encode()).hexdigest()
    expected = f"Here: ![cat](data:image/png;base64,[sha256 {digest}, 4000 characters])"
    assert shown.result.structured["text"] == f"{expected} and ![dot](data:image/png;base64,QUJD)."
