"""Counts, times and faults of tools, within limits and without secrets."""

from __future__ import annotations

from typing import Any

from app.extend import CallContext, CallFinished, Door, ErrorKind, Outcome, ToolCall, ToolResult, ToolSpec, TurnStarted
from app.observe.tool_records import MAX_FAULTS, MAX_MESSAGE_CHARS, MAX_TAIL_CHARS, MAX_TOOLS, NO_RECORD, ToolRecords


def ended(tool: str, ran: float = 0.0, kind: ErrorKind | None = None, **fields: Any) -> CallFinished:
    outcome = Outcome.SUCCESS if kind is None else Outcome.ERROR
    if kind is ErrorKind.CANCELLED:
        outcome = Outcome.CANCELLED
    result = ToolResult(error_kind=kind, **fields)
    context = CallContext("t", Door.PANEL)
    return CallFinished("t", ToolCall("c", tool, {}), context, ToolSpec(tool, "local", tool), outcome, result, 0, ran)


def records() -> ToolRecords:
    times = iter(range(1, 10**6))
    return ToolRecords(lambda: float(next(times)), lambda text: text.replace("secret", "***"))


def test_calls_are_counted_and_timed_and_only_work_counts_as_time() -> None:
    kept = records()
    for event in (ended("A", 1.0), ended("A", 3.0), ended("A", 0.0, ErrorKind.REFUSED, message="no secret")):
        kept.observe(event)
    for kind in (ErrorKind.CANCELLED, ErrorKind.REJECTED, ErrorKind.UNANSWERED):
        kept.observe(ended("A", 0.5 if kind is ErrorKind.CANCELLED else 0.0, kind))
    one = kept.of("A")
    assert (one.calls, one.failures, one.mean, one.last, one.last_at) == (6, 1, 1.5, 0.5, 6.0)
    (fault,) = one.faults
    assert (fault.kind, fault.message, fault.door, fault.at) == ("refused", "no ***", "panel", 3.0)
    assert kept.of("B") == NO_RECORD


def test_everything_is_limited() -> None:
    kept = records()
    for number in range(MAX_FAULTS + 3):
        kept.observe(
            ended("A", 1, ErrorKind.PLUGIN, message=f"{number}" + "x" * 10**5, stderr_tail="y" * 10**5 + "end")
        )
    faults = kept.of("A").faults
    assert len(faults) == MAX_FAULTS and faults[0].message[0] == f"{MAX_FAULTS + 2}"
    assert len(faults[0].message) == MAX_MESSAGE_CHARS
    assert len(faults[0].stderr) == MAX_TAIL_CHARS and faults[0].stderr.endswith("end")
    for number in range(MAX_TOOLS):
        kept.observe(ended(f"T{number}"))
    assert kept.of("A") == NO_RECORD and kept.of("T0").calls == 1


def test_what_is_no_call_of_a_known_tool_is_passed_over() -> None:
    kept = records()
    kept.observe(TurnStarted("t", "m", False, None))
    kept.observe(
        CallFinished(
            "t",
            ToolCall("c", "No", {}),
            CallContext("t", Door.PANEL),
            None,
            Outcome.ERROR,
            ToolResult(error_kind=ErrorKind.UNKNOWN_TOOL),
            0,
            0,
        )
    )
    assert kept.of("No") == NO_RECORD
