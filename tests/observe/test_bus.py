"""The event bus: bounded, never blocking."""

from __future__ import annotations

import asyncio

import pytest

from app.extend import Event, FirstToken, RoundStarted
from app.observe.bus import EventBus


def event(number: int) -> RoundStarted:
    return RoundStarted("t", number)


def test_listeners_and_subscribers_get_every_event_in_order() -> None:
    async def main() -> None:
        bus = EventBus()
        heard: list[Event] = []
        bus.publish(event(0))  # nobody listens
        bus.listen(heard.append)
        first, second = bus.subscribe(), bus.subscribe()
        for number in (1, 2):
            bus.publish(event(number))
        assert heard == [event(1), event(2)]
        for subscription in (first, second):
            assert [await subscription.next(), await subscription.next()] == [event(1), event(2)]
            assert subscription.dropped == 0

    asyncio.run(main())


def test_a_kind_of_event_is_wanted_while_somebody_hears_it() -> None:
    async def main() -> None:
        bus = EventBus()
        assert not bus.wanted(RoundStarted)
        subscription = bus.subscribe()
        assert bus.wanted(RoundStarted)
        subscription.close()
        assert not bus.wanted(RoundStarted)
        bus.listen(lambda _event: None, FirstToken)
        assert bus.wanted(FirstToken)
        assert not bus.wanted(RoundStarted)
        bus.listen(lambda _event: None)
        assert bus.wanted(RoundStarted)

    asyncio.run(main())


def test_a_full_queue_drops_and_counts_and_does_not_hold_up_the_others() -> None:
    async def main() -> None:
        bus = EventBus()
        slow, quick = bus.subscribe(2), bus.subscribe(10)
        for number in range(5):
            bus.publish(event(number))
        assert (slow.dropped, quick.dropped) == (3, 0)
        assert [await slow.next() for _ in range(2)] == [event(0), event(1)]
        bus.publish(event(9))
        assert await slow.next() == event(9)
        assert slow.dropped == 3

    asyncio.run(main())


def test_a_closed_subscription_gets_nothing_more_and_closing_twice_is_harmless() -> None:
    async def main() -> None:
        bus = EventBus()
        gone, stays = bus.subscribe(1), bus.subscribe(1)
        gone.close()
        gone.close()
        bus.publish(event(1))
        bus.publish(event(2))
        assert gone.dropped == 0
        assert stays.dropped == 1

    asyncio.run(main())


def test_a_waiting_subscriber_is_woken() -> None:
    async def main() -> None:
        bus = EventBus()
        subscription = bus.subscribe()
        waiting = asyncio.create_task(subscription.next())
        await asyncio.sleep(0)
        bus.publish(event(1))
        assert await waiting == event(1)

    asyncio.run(main())


@pytest.mark.parametrize("limit", [0, -1])
def test_a_queue_without_a_limit_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        EventBus().subscribe(limit)


def test_a_listener_may_choose_the_kinds_it_hears() -> None:
    bus = EventBus()
    all_heard: list[Event] = []
    some_heard: list[Event] = []
    bus.listen(all_heard.append)
    bus.publish(RoundStarted("t", 1))
    bus.listen(some_heard.append, RoundStarted)
    for one in (RoundStarted("t", 2), FirstToken("t", 2), RoundStarted("t", 3)):
        bus.publish(one)
    assert some_heard == [RoundStarted("t", 2), RoundStarted("t", 3)]
    assert len(all_heard) == 4


def test_missed_events_are_counted_also_those_of_subscribers_that_are_gone() -> None:
    bus = EventBus()
    one, other = bus.subscribe(1), bus.subscribe(1)
    for number in range(3):
        bus.publish(RoundStarted("t", number))
    assert bus.dropped == 4
    one.close()
    one.close()
    bus.publish(RoundStarted("t", 4))
    assert (bus.dropped, other.dropped) == (5, 3)


def test_who_ceases_to_listen_hears_nothing_more_and_wants_nothing() -> None:
    bus = EventBus()
    heard: list[Event] = []
    bus.listen(heard.append, RoundStarted)
    bus.publish(event(1))
    bus.unlisten(heard.append)
    bus.unlisten(heard.append)
    bus.publish(event(2))
    assert heard == [event(1)] and not bus.wanted(RoundStarted)
