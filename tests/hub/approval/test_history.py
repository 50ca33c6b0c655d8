"""What came of approvals is kept for people: the last ones only, no arguments."""

from __future__ import annotations

from app.extend import ApprovalAsked, ApprovalSettled, CallContext, Door, ToolCall
from app.hub.approval.history import MAX_KEPT, MAX_WAITING, ApprovalHistory


def asked(number: int, at: float = 5.0) -> ApprovalAsked:
    call = ToolCall(f"c{number}", "Tool", {"key": "secret"}, maid="Nova")
    return ApprovalAsked(f"a{number}", call, CallContext("t", Door.STREAM), at, 60.0)


def test_a_decision_is_told_with_who_asked_and_who_decided() -> None:
    history = ApprovalHistory(lambda: 9.0)
    history.heard(asked(1))
    history.heard(ApprovalSettled("a1", "Tool", False, "panel", "too dangerous"))
    (one,) = history.last()
    assert (one.id, one.tool, one.door, one.maid, one.asked_at, one.settled_at) == (
        "a1",
        "Tool",
        "stream_loop",
        "Nova",
        5.0,
        9.0,
    )
    assert (one.approved, one.by, one.reason) == (False, "panel", "too dangerous")
    assert "secret" not in repr(one)


def test_only_the_last_ones_are_kept_and_what_never_ends_is_forgotten() -> None:
    history = ApprovalHistory(lambda: 9.0)
    for number in range(MAX_WAITING + 1):
        history.heard(asked(number))
    for number in range(MAX_KEPT + 1):
        history.heard(ApprovalSettled(f"a{number}", "Tool", None))
    kept = history.last()
    assert len(kept) == MAX_KEPT and kept[0].id == f"a{MAX_KEPT}" and len(history.last(3)) == 3
    assert {one.door for one in kept} == {"stream_loop"}
