"""What holds for every request, however its upstreams fare and whatever is known of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.errors import UpstreamConnectError
from app.extend import UpstreamTarget
from app.upstream.failover import Candidate, FailOver, fails_over, is_unwell
from app.upstream.fleet import Fleet
from app.upstream.retry import RETRIED_STATUSES

ATTEMPTS = 3

# For each upstream: seconds of rest that it has left, and after each attempt the seconds until another one, or none.
FATES = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 5.0, 60.0]),
        st.lists(st.none() | st.sampled_from([0.0, 0.1, 0.2, 7.0]), min_size=ATTEMPTS, max_size=ATTEMPTS),
    ),
    min_size=1,
    max_size=5,
)


@given(FATES)
def test_every_upstream_is_asked_none_too_often_and_the_search_ends(
    fates: list[tuple[float, list[float | None]]],
) -> None:
    fleet = Fleet()
    targets = [UpstreamTarget(f"http://{number}", "", name=str(number)) for number in range(len(fates))]
    candidates = [Candidate(target, fleet.standing(target)) for target in targets]
    for candidate, (rest, _) in zip(candidates, fates, strict=True):
        if rest:
            candidate.standing.health.fail(0, 1, 0.5, wanted=rest)
    plan = FailOver(candidates)
    order: list[Candidate] = []
    paused = 0.0
    while not plan.over:
        able = plan.next(0)
        if not able:
            seconds = plan.pause()
            assert seconds > 0
            paused += seconds
            continue
        candidate = able[0]
        order.append(candidate)
        _, waits = fates[candidates.index(candidate)]
        candidate.attempts += 1
        wait = waits[candidate.attempts - 1] if candidate.attempts < ATTEMPTS else None
        plan.failed(candidate, UpstreamConnectError(f"失败 {candidate.target.name}"), wait)

    assert set(order) == set(candidates)  # nobody is given up without an attempt
    assert max(candidate.attempts for candidate in candidates) <= ATTEMPTS
    sound = [candidate for candidate, (rest, _) in zip(candidates, fates, strict=True) if not rest]
    assert order[0] is (sound or order)[0]
    assert plan.error() is order[0].error
    assert paused <= 7.0 * ATTEMPTS * len(fates)


@given(st.integers(100, 599))
def test_what_may_pass_is_asked_elsewhere_and_what_is_the_requests_own_fault_is_nobodys_illness(status: int) -> None:
    if status in RETRIED_STATUSES:
        assert fails_over(status)
    if is_unwell(status):
        assert fails_over(status)
    if 200 <= status < 300 or status in (400, 413, 415, 422):
        assert not fails_over(status)
