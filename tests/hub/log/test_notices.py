"""The ``source`` of a notice at every door (spec 6.2; D66)."""

from __future__ import annotations

import pytest

from app.extend import CallContext, CallFinished, Door, ErrorKind, Outcome, ToolCall, ToolResult
from app.hub.log.notices import source
from app.protocol.markers import PASSWORD_REFUSED

REFUSED = ToolResult(error_kind=ErrorKind.REFUSED, message=PASSWORD_REFUSED)
UNKNOWN = ToolResult(error_kind=ErrorKind.UNKNOWN_TOOL)


def told(door: Door, result: ToolResult, *, archery: bool = False) -> str:
    call = ToolCall("c", "T", {}, archery=archery)
    return source(CallFinished("t", call, CallContext("t", door), None, Outcome.ERROR, result, 0, 0))


@pytest.mark.parametrize("door", [Door.STREAM, Door.NON_STREAM])
def test_in_the_chat_the_source_says_how_a_call_failed(door: Door) -> None:
    base = door.value
    assert told(door, ToolResult()) == base
    assert told(door, UNKNOWN) == f"{base}_not_found"
    assert told(door, REFUSED) == f"{base}_auth_error"
    for kind in set(ErrorKind) - {ErrorKind.UNKNOWN_TOOL}:  # a refusal for another reason is a plain error
        assert told(door, ToolResult(error_kind=kind, message="no")) == f"{base}_error"
    assert told(door, ToolResult(), archery=True) == f"{base}_archery"
    for result in (UNKNOWN, REFUSED, ToolResult(error_kind=ErrorKind.TIMEOUT)):
        assert told(door, result, archery=True) == f"{base}_archery_error"


@pytest.mark.parametrize(
    ("door", "base"),
    [
        *[(door, door.value) for door in Door if door not in (Door.STREAM, Door.NON_STREAM, Door.SCHEDULE)],
        (Door.SCHEDULE, "task_scheduler_executor"),
    ],
)
def test_at_other_doors_every_failure_is_one_error(door: Door, base: str) -> None:
    for archery in (True, False):
        assert told(door, ToolResult(), archery=archery) == base
        for result in (UNKNOWN, REFUSED, ToolResult(error_kind=ErrorKind.QUEUE)):
            assert told(door, result, archery=archery) == f"{base}_error"
