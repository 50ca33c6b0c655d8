"""The retry policy as tables (spec 4.10, P27, P28, P30)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import UpstreamConnectError
from app.upstream.retry import RETRIED_STATUSES, Decision, Fault, RetryPolicy, parse_retry_after

STOP = Decision(None)
USED_UP = Decision(None, exhausted=True)


@pytest.mark.parametrize(
    ("attempt", "status", "retry_after", "decision"),
    [
        (1, 429, None, Decision(0.2)),
        (2, 429, None, Decision(0.4)),
        (3, 429, None, USED_UP),
        (4, 429, None, USED_UP),
        (1, 500, None, Decision(0.2)),
        (1, 502, None, Decision(0.2)),
        (1, 503, None, Decision(0.2)),
        (1, 504, None, Decision(0.2)),
        (1, 529, None, Decision(0.2)),
        (1, 429, 0.0, Decision(0.2)),  # a shorter pause than ours is not obeyed
        (1, 429, 0.3, Decision(0.3)),
        (2, 429, 0.3, Decision(0.4)),
        (1, 503, 60.0, Decision(60.0)),
        (1, 429, 60.5, STOP),
        (1, 503, 3600.0, STOP),
        (3, 429, 3600.0, USED_UP),
        (1, 400, None, STOP),
        (1, 401, None, STOP),
        (1, 403, None, STOP),
        (1, 404, None, STOP),
        (1, 408, None, STOP),
        (1, 413, None, STOP),
        (1, 422, 1.0, STOP),
        (1, 501, None, STOP),
        (1, 505, None, STOP),
        (1, 302, None, STOP),
        (1, 204, None, STOP),
    ],
)
def test_what_follows_a_status(attempt: int, status: int, retry_after: float | None, decision: Decision) -> None:
    assert RetryPolicy(attempts=3, delay_ms=200).after_status(attempt, status, retry_after) == decision


@pytest.mark.parametrize(
    ("attempt", "retried", "decision"),
    [(1, True, Decision(0.2)), (2, True, Decision(0.4)), (3, True, USED_UP), (1, False, STOP), (3, False, STOP)],
)
def test_what_follows_an_attempt_without_an_answer(attempt: int, retried: bool, decision: Decision) -> None:
    fault = Fault(UpstreamConnectError("x"), retried)
    assert RetryPolicy(attempts=3, delay_ms=200).after_fault(attempt, fault) == decision


@given(attempts=st.integers(1, 20), status=st.sampled_from(sorted(RETRIED_STATUSES)), delay=st.floats(0, 1e6))
def test_the_number_of_attempts_is_the_one_that_is_set(attempts: int, status: int, delay: float) -> None:
    policy = RetryPolicy(attempts, delay)
    made = 1
    while policy.after_status(made, status, None).wait is not None:
        made += 1
    assert made == attempts


@pytest.mark.parametrize(("attempts", "delay"), [(0, 1), (-1, 1), (1, -1), (1, float("nan")), (1, float("inf"))])
def test_a_policy_that_makes_no_sense_is_refused(attempts: int, delay: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        RetryPolicy(attempts, delay)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("120", 120.0),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("٧", None),
        ("9" * 400, None),
        ("soon", None),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:02:00 -0000", 20.0),
        ("Thu, 01 Jan 1970 01:02:00 +0100", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Thu, 99 Jan 1970 00:00:00 GMT", None),
        ("Thu, 01 Jan 99999 00:00:00 GMT", None),
    ],
)
def test_a_retry_after_header_gives_seconds_from_now(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, now=100.0) == seconds


@given(st.text())
def test_no_retry_after_header_raises(value: str) -> None:
    seconds = parse_retry_after(value, now=0.0)
    assert seconds is None or seconds >= 0
