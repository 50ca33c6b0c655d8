"""Pauses between connections (P82)."""

from __future__ import annotations

from random import Random

from app.node.pauses import FIRST_SECONDS, LONGEST_SECONDS, REFUSED_SECONDS, STEADY_SECONDS, Pauses


def test_pauses_double_from_five_seconds_to_sixty() -> None:
    """Spec 6.4."""
    pauses = Pauses(lambda: 1.0)
    assert [pauses.after(0) for _ in range(6)] == [5, 10, 20, 40, 60, 60]


def test_only_a_connection_that_held_begins_anew() -> None:
    """P82: a server that closes right after the handshake is not hammered."""
    pauses = Pauses(lambda: 1.0)
    assert [pauses.after(0.1) for _ in range(4)] == [5, 10, 20, 40]
    assert pauses.after(STEADY_SECONDS - 1) == LONGEST_SECONDS
    assert pauses.after(STEADY_SECONDS) == FIRST_SECONDS


def test_chance_shortens_a_pause_by_up_to_a_half_and_never_below_the_one_before() -> None:
    pauses = Pauses(Random(7).random)
    given = [pauses.after(0) for _ in range(4)]
    assert given == sorted(given)
    assert all(full / 2 <= pause <= full for pause, full in zip(given, (5, 10, 20, 40), strict=True))
    assert len({pause / full for pause, full in zip(given, (5, 10, 20, 40), strict=True)}) == 4


def test_a_refusal_is_repeated_slowly() -> None:
    """Servers block addresses that try wrong keys."""
    pauses = Pauses(lambda: 0.0)
    assert [pauses.after(0, refused=True) for _ in range(3)] == [REFUSED_SECONDS / 2] * 3
