"""What a trace says of a request: steps with times, texts or their lengths, never secrets or pictures."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.extend import (
    ApprovalAsked,
    ApprovalSettled,
    CallContext,
    CallFound,
    CallProgress,
    CallStarted,
    Door,
    Outcome,
    PhaseDone,
    RoundFinished,
    RoundStarted,
    ToolResult,
    Trust,
    TurnFinished,
    TurnStarted,
)
from app.observe.traces import texts
from app.observe.traces.document import trace_document
from app.observe.traces.record import MAX_EVENTS
from app.observe.traces.store import written
from tests.observe.traces.making import (
    SECRET,
    START,
    Hearing,
    call,
    chat,
    document_of,
    failed_call,
    finished,
    mask,
    message,
    prompt,
)

BEGIN, END = TurnStarted("t", "m", False, None), TurnFinished("t", Outcome.SUCCESS, 1, 0)


def test_a_chat_has_its_phases_rounds_first_token_calls_tokens_and_recall_with_their_times() -> None:
    trace = document_of(*chat())
    assert (trace["id"], trace["kind"], trace["model"], trace["agent"]) == ("t", "turn", "m", "Nova")
    assert (trace["outcome"], trace["started"], trace["client"]) == ("success", START, "10.0.0.9")
    assert trace["duration"] == 1.1
    assert trace["phases"] == [
        {"name": "operator_text", "start": 0.0, "end": 0.1, "pieces_before": 1, "pieces_after": 3}
    ]
    (one,) = trace["rounds"]
    assert (one["start"], one["answered"], one["first_token"], one["end"]) == (0.4, 0.5, 0.6, 0.9)
    assert (one["upstream"], one["text"], one["finish_reason"]) == ("FIRST", "so", "stop")
    assert trace["tokens"] == {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    (made,) = trace["calls"]
    assert (made["tool"], made["found"], made["start"], made["end"]) == ("Echo", 0.7, 0.8, 1.0)
    assert made["place"] == {"kind": "process", "origin": "local", "pid": 77}
    assert (made["arguments"], made["result"], made["outcome"]) == ({"text": "how?"}, "ok", "success")
    (hits,) = trace["recall"]
    assert hits["results"] == [{"text": "a note", "score": 0.75, "source": "rag", "originalScore": 0.5}]
    assert trace["prompt"]["origins"][0] == {
        "message": 0,
        "part": None,
        "runs": [["agent:Nova", "operator", 8], ["recall:Nova", "data", 6]],
    }
    assert trace["prompt"]["request"] == {"model": "m", "temperature": 0.5}


def test_metadata_alone_holds_no_text_of_anybody_but_sizes_scores_and_names() -> None:
    trace = document_of(*chat(question="PRIVATE question", answer="PRIVATE answer"), full=False)
    text = json.dumps(trace)
    assert "PRIVATE" not in text and "a note" not in text and "You are" not in text
    assert trace["prompt"]["after"][0] == {"role": "user", "content": {"chars": 14}}
    assert trace["prompt"]["origins"][0]["runs"] == [["agent:Nova", "operator", 8], ["recall:Nova", "data", 6]]
    assert trace["rounds"][0]["text"] == {"chars": 14}
    assert trace["calls"][0]["arguments"] == {"chars": 16} and trace["recall"][0]["results"][0]["score"] == 0.75
    assert trace["prompt"]["request"] == {"fields": ["model", "temperature"]}


def test_secrets_are_masked_wherever_they_stand() -> None:
    token = "sk-" + "a1" * 15
    asked = call(password=SECRET, api_key="anything at all", note=f"use {token}", tool_password="123456")
    trace = document_of(
        BEGIN,
        prompt([[(f"key {SECRET[:8]}", "a", Trust.OPERATOR), (SECRET[8:], "b", Trust.DATA)]], user=SECRET),
        RoundFinished("t", 1, "stop", None, f"I say {SECRET} and {token}"),
        finished(asked, failed_call(f"bad key {SECRET}"), outcome=Outcome.ERROR),
        TurnFinished("t", Outcome.ERROR, 1, 1, f"refused {SECRET}"),
    )  # fmt: skip
    text = json.dumps(trace)
    assert SECRET not in text and token not in text and "123456" not in text and "anything at all" not in text
    assert trace["error"] == "refused ***"
    # It lies across two pieces, so that nobody can be named for a part of the mask.
    (origin,) = trace["prompt"]["origins"]
    assert origin["runs"] == [["later", "mixed", len(trace["prompt"]["after"][0]["content"])]]


def test_names_are_masked_too_for_anybody_may_send_a_secret_as_one() -> None:
    events = [TurnStarted("t", f"m {SECRET}", False, None), CallFound("t", "x", f"T {SECRET}", "think")]
    last = finished(call(f"Tool {SECRET}"))
    trace = document_of(*events, prompt([message("x")], before=[{"role": SECRET, "content": "x"}]), last, END)
    assert SECRET not in json.dumps(trace) and trace["model"] == "m ***" and trace["calls"][0]["tool"] == "Tool ***"
    assert SECRET not in json.dumps(document_of(*events, last, END, full=False))


def test_pictures_are_digests_p20() -> None:
    picture = "data:image/png;base64," + "QUJD" * 1000
    part = {"type": "image_url", "image_url": {"url": picture}}
    sent = [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]
    trace = document_of(BEGIN, prompt([message("see")], before=sent, sent=sent), finished(call(image=picture)), END)
    text = json.dumps(trace)
    assert "QUJDQUJD" not in text and text.count("sha256") == 3
    assert trace["prompt"]["origins"] == [{"message": 0, "part": 0, "runs": [["message", "message", 3]]}]


def test_texts_that_are_too_long_are_cut_and_say_so(monkeypatch: Any) -> None:
    monkeypatch.setattr(texts, "MAX_TEXT", 50)
    monkeypatch.setattr(texts, "MAX_ALL", 120)
    long = "x" * 80
    trace = document_of(BEGIN, prompt([message(long)]), RoundFinished("t", 1, "stop", None, long), END)
    assert trace["prompt"]["before"][0]["content"] == "x" * 50 + "… (+30 characters)"
    (origin,) = trace["prompt"]["origins"]
    assert sum(run[2] for run in origin["runs"]) == len(trace["prompt"]["after"][0]["content"])


def test_a_huge_result_is_cut_before_anything_looks_at_it_and_no_secret_is_cut_in_two(monkeypatch: Any) -> None:
    monkeypatch.setattr(texts, "MAX_TEXT", 1_000)
    monkeypatch.setattr(texts, "MARGIN", 100)
    monkeypatch.setattr(texts, "MAX_VALUES", 500)
    text = "x " * 495 + SECRET + " y" * 50_000
    many = {str(number): number for number in range(5_000)}
    pieces = [(text[:700], "a", Trust.OPERATOR), (text[700:], "b", Trust.DATA)]
    trace = document_of(BEGIN, prompt([pieces]), finished(call(), ToolResult([text, many, [0] * 900])), END)
    assert SECRET[:10] not in json.dumps(trace)
    result = trace["calls"][0]["result"]
    assert result[0].startswith("x " * 495 + "*** y") and len(result[0]) < 1_100 and len(result[1]) == 497
    assert result[2] == "…"
    (origin,) = trace["prompt"]["origins"]
    assert origin["runs"][0] == ["a", "operator", 700]
    assert sum(run[2] for run in origin["runs"]) == len(trace["prompt"]["after"][0]["content"])


def test_a_later_phase_that_added_something_is_told_apart_from_the_expanded_text() -> None:
    text = "the expanded text of an agent"
    sent = [{"role": "system", "content": f"<<{text}>>"}, {"role": "user", "content": "wholly new"}]
    trace = document_of(BEGIN, prompt([message(text)], sent=sent), END)
    first, second = trace["prompt"]["origins"]
    assert first["runs"] == [["later", "data", 2], ["message", "message", len(text)], ["later", "data", 2]]
    assert second["runs"] == [["later", "data", 10]]


def test_where_a_call_ran_is_told_for_nodes_mcp_servers_and_the_server_itself() -> None:
    def started(id: str, origin: str, **where: Any) -> CallStarted:
        return CallStarted("t", id, "X", Door.STREAM, origin, False, **where)

    events = [started("a", "node:n", node="far"), started("b", "mcp:files"), started("c", "local")]
    ends = [finished(call("X", id), ran=0.1) for id in "abc"]
    trace = document_of(BEGIN, *events, *ends, END)
    assert [one["place"] for one in trace["calls"]] == [
        {"kind": "node", "origin": "node:n", "node": "far"},
        {"kind": "mcp", "origin": "mcp:files", "server": "files"},
        {"kind": "inside", "origin": "local"},
    ]


def test_calls_that_are_not_run_progress_and_approvals_are_told() -> None:
    one = call()
    context = CallContext("t", Door.STREAM)
    trace = document_of(
        BEGIN,
        CallFound("t", "x", "Thought", "think"),
        CallFound("t", "c", "Echo"),
        ApprovalAsked("r", one, context, START, 30),
        ApprovalSettled("r", "Echo", True, "Ann"),
        CallProgress("t", "c", 3, 10),
        finished(one, ran=0),
        END,
    )
    assert trace["skipped"] == [{"at": 0.1, "tool": "Thought", "why": "think"}]
    (made,) = trace["calls"]
    assert made["approval"] == {"asked": 0.3, "settled": 0.4, "approved": True, "by": "Ann"}
    assert made["progress"] == {"at": 0.5, "progress": 3, "total": 10} and made["start"] is None


def test_a_call_of_no_chat_is_a_trace_of_its_own_with_its_door() -> None:
    hearing = Hearing()
    one = call(id="c1", text="x")
    hearing.hear(CallStarted("c1", "c1", "Echo", Door.HUMAN_TOOL, "local", False, pid=3))
    hearing.hear(finished(one, turn="c1", door=Door.HUMAN_TOOL))
    hearing.hear(finished(call("Late", "c2"), turn="t-gone", door=Door.DIARY_BLOCK))  # after its chat has ended
    first, second = [trace_document(record, mask()) for record in hearing.ended]
    assert (first["kind"], first["outcome"], first["parent"], first["calls"][0]["door"]) == (
        "call",
        "success",
        "",
        "human_tool",
    )
    assert (second["parent"], second["calls"][0]["door"]) == ("t-gone", "diary_block")


def test_a_request_that_still_runs_is_shown_as_far_as_it_is() -> None:
    hearing = Hearing()
    hearing.hear(BEGIN, PhaseDone("t", "data", 1, 1), RoundStarted("t", 1))
    record = hearing.collector.one("t")
    assert record is not None and [one.id for one in hearing.collector.running()] == ["t"]
    trace = trace_document(record, mask(), hearing.now)
    assert (trace["outcome"], round(trace["duration"], 3), trace["rounds"][0]["end"]) == ("running", 0.3, None)


def test_a_chat_with_more_events_than_are_kept_says_how_many_are_missing_and_still_has_its_end() -> None:
    hearing = Hearing()
    hearing.hear(BEGIN, *[CallProgress("t", "c", number) for number in range(MAX_EVENTS + 9)], END, step=0)
    (record,) = hearing.ended
    assert len(record.heard) == MAX_EVENTS + 1
    trace = trace_document(record, mask())
    assert (trace["outcome"], trace["events_left_out"]) == ("success", 10)


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=30)
@given(VALUES)
def test_whatever_a_tool_gives_the_trace_can_be_written(value: Any) -> None:
    trace = document_of(BEGIN, finished(call(value=value), ToolResult(value)), END)
    json.loads(written(trace))


def test_what_is_nested_too_deeply_or_no_json_does_no_harm() -> None:
    deep: Any = "bottom"
    for _ in range(3000):
        deep = [deep]
    trace = document_of(BEGIN, finished(call(), ToolResult({"deep": deep, "odd": {1, 2}, "nan": float("nan")})), END)
    result = json.loads(written(trace))["calls"][0]["result"]
    assert result["odd"] == "(set)" and result["nan"] == "nan"
