"""The log of turns and calls: one line each, nothing of prompts, arguments or keys."""

from __future__ import annotations

import logging

import pytest

from app.extend import (
    ApprovalAsked,
    ApprovalSettled,
    BackgroundResult,
    CallContext,
    CallFinished,
    CallFound,
    CallStarted,
    DiaryWritten,
    Door,
    ErrorKind,
    Event,
    Outcome,
    PhaseDone,
    RoundStarted,
    TaskFinished,
    TaskScheduled,
    ToolCall,
    ToolResult,
    TurnFinished,
)
from app.observe.call_log import MAX_NAME, MAX_TEXT, log_event

SECRET = "s3cret"
NASTY = "Tool\n2026-01-01 CRITICAL forged\x1b[31m\r\x00"


def finished(result: ToolResult, outcome: Outcome, tool: str = "Echo") -> CallFinished:
    call = ToolCall("c1", tool, {"key": SECRET}, texts={"key": SECRET}, password=SECRET)
    return CallFinished("t1", call, CallContext("t1", Door.HUMAN_TOOL), None, outcome, result, 0.25, 1.5)


@pytest.mark.parametrize(
    ("event", "level", "parts"),
    [
        (BackgroundResult("Video", "t-7", {"message": SECRET}, None), logging.INFO, ["t-7 of Video"]),
        (CallFound("t1", "c1", "Echo", "inside a think part"), logging.INFO, ["Echo", "inside a think part"]),
        (
            ApprovalAsked("a-1", ToolCall("c1", "Echo", {"key": SECRET}), CallContext("t1", Door.AGENT), 0.0, 300.0),
            logging.INFO,
            ["c1", "Echo", "agent", "300 s", "a-1"],
        ),
        (
            ApprovalSettled("a-1", "Echo", True, "VCPLog client client-1 from ::1"),
            logging.INFO,
            ["a-1 of Echo", "approved by VCPLog client client-1 from ::1"],
        ),
        (ApprovalSettled("a-1", "Echo", False, "x", "why not"), logging.INFO, ["rejected by x: why not"]),
        (ApprovalSettled("a-1", "Echo", None, "", "no answer in time"), logging.INFO, ["not decided: no answer"]),
        (
            finished(ToolResult(structured={"out": SECRET}), Outcome.SUCCESS),
            logging.INFO,
            ["c1", "Echo", "human_tool", "success", "0.250", "1.500"],
        ),
        (
            finished(ToolResult(error_kind=ErrorKind.TIMEOUT, message="too slow"), Outcome.ERROR),
            logging.WARNING,
            ["timeout: too slow"],
        ),
        (
            finished(ToolResult(error_kind=ErrorKind.CANCELLED, message="stop"), Outcome.CANCELLED),
            logging.INFO,
            ["cancelled"],
        ),
        (DiaryWritten("t1", "Nova", "2026-01-01", "/d/x.txt", "m"), logging.INFO, ["Nova", "/d/x.txt"]),
        (
            TurnFinished("t1", Outcome.ERROR, 2, 3, "upstream", "gpt"),
            logging.INFO,
            ["gpt", "2 rounds", "3 calls", "upstream"],
        ),
        (TaskScheduled("t7", "Echo", 0.0), logging.INFO, ["t7", "Echo", "1970-01-01T00:00:00+00:00"]),
        (
            TaskFinished("t7", "Echo", 0.0, ToolResult(structured={"out": SECRET})),
            logging.INFO,
            ["t7", "Echo", "1970-01-01T00:00:00+00:00", "success"],
        ),
        (TaskFinished("t7", "", 0.0, None, "no tool"), logging.WARNING, ["t7", "no tool"]),
    ],
)
def test_one_line_for_what_an_operator_wants_to_see(
    event: Event, level: int, parts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "app.turns"):
        log_event(event)
    (record,) = caplog.records
    assert record.levelno == level
    assert all(part in record.getMessage() for part in parts)
    assert SECRET not in record.getMessage()


@pytest.mark.parametrize(
    "event",
    [
        CallFound("t1", "c1", "Echo"),
        CallStarted("t1", "c1", "Echo", Door.STREAM, "local", False),
        RoundStarted("t1", 1),
        PhaseDone("t1", "p", 1, 2),
    ],
)
def test_the_rest_is_silent(event: Event, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "app.turns"):
        log_event(event)
    assert caplog.records == []


@pytest.mark.parametrize(
    "event",
    [
        CallFound("t1", "c1", NASTY + "x" * 10_000, "why"),
        finished(ToolResult(error_kind=ErrorKind.PLUGIN, message=NASTY + "x" * 10_000), Outcome.ERROR, NASTY),
        finished(ToolResult(), Outcome.SUCCESS, NASTY + "x" * 10_000),
        DiaryWritten("t1", NASTY + "x" * 10_000, "d", "f", "m"),
        TurnFinished("t1", Outcome.ERROR, 1, 0, NASTY + "x" * 10_000, NASTY + "x" * 10_000),
        TaskScheduled(NASTY + "x" * 10_000, NASTY + "x" * 10_000, 0.0),
        TaskFinished(NASTY + "x" * 10_000, NASTY, 0.0, None, NASTY + "x" * 10_000),
    ],
)
def test_nobody_writes_lines_of_his_own_or_lines_without_end(event: Event, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "app.turns"):
        log_event(event)
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert len(record.getMessage()) < MAX_TEXT + MAX_NAME + 200


def test_secrets_that_a_tool_repeats_in_its_error_are_taken_out_also_where_the_line_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for before in (0, MAX_TEXT - 3, 2 * MAX_TEXT - 3):
        message = "x" * before + SECRET + "y" * 100_000
        result = ToolResult(error_kind=ErrorKind.PLUGIN, message=message)
        log_event(finished(result, Outcome.ERROR), lambda text: text.replace(SECRET, "***"))
    assert SECRET[:3] not in caplog.text
    assert "***" in caplog.text
