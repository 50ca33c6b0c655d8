"""The event bus: subscribers with bounded queues that drop and count, never block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.extend import Event
from app.observe.digests import digested

QUEUE_LIMIT = 1000


class Subscription:
    """One subscriber's queue; ``dropped`` counts the events that found it full."""

    def __init__(self, limit: int, unsubscribe: Callable[[Subscription], None]) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(limit)
        self._unsubscribe = unsubscribe
        self.dropped = 0

    def offer(self, event: Event) -> None:
        """Put the event in, or count it as dropped."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1

    async def next(self) -> Event:
        """The next event; waits for one."""
        return await self._queue.get()

    def close(self) -> None:
        """Stop receiving."""
        self._unsubscribe(self)


class EventBus:
    """Hands every event to direct listeners (fast, synchronous) and to queued subscribers.

    ``dropped`` counts the events that found a queue full, of all subscribers since the start.
    What waits in a queue holds no pictures: a digest is made of them, once, and only when somebody is subscribed.
    """

    def __init__(self) -> None:
        self._subscriptions: tuple[Subscription, ...] = ()
        self._listeners: tuple[tuple[Callable[[Event], None], frozenset[type]], ...] = ()
        self._dropped_before = 0  # by subscribers that are gone
        self._by_kind: dict[type, tuple[Callable[[Event], None], ...]] = {}

    @property
    def dropped(self) -> int:
        """Events that somebody missed."""
        return self._dropped_before + sum(one.dropped for one in self._subscriptions)

    def listen(self, listener: Callable[[Event], None], *kinds: type) -> None:
        """Call ``listener`` at once with each event, or those of ``kinds``; it must be quick and must not raise."""
        self._listeners = (*self._listeners, (listener, frozenset(kinds)))
        self._by_kind.clear()

    def unlisten(self, listener: Callable[[Event], None]) -> None:
        """Call ``listener`` no more; one that does not listen is passed over."""
        self._listeners = tuple(one for one in self._listeners if one[0] != listener)
        self._by_kind.clear()

    def subscribe(self, limit: int = QUEUE_LIMIT) -> Subscription:
        """A queue of events from now on, of at most ``limit`` waiting events; ValueError for a limit that is none."""
        if limit < 1:
            raise ValueError(f"a queue needs a limit, not {limit}")
        subscription = Subscription(limit, self._remove)
        self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def wanted(self, kind: type[Event]) -> bool:
        """Whether anybody hears events of this kind now; who publishes many need not make them for nobody."""
        return bool(self._subscriptions or self._listening(kind))

    def publish(self, event: Event) -> None:
        """Hand the event on; never blocks."""
        for listener in self._listening(type(event)):
            listener(event)
        if not self._subscriptions:
            return
        kept = digested(event)
        for subscription in self._subscriptions:
            subscription.offer(kept)

    def _listening(self, kind: type[Event]) -> tuple[Callable[[Event], None], ...]:
        listeners = self._by_kind.get(kind)
        if listeners is None:  # once for each kind: an event that nobody listens to costs next to nothing
            listeners = tuple(listener for listener, kinds in self._listeners if not kinds or kind in kinds)
            self._by_kind[kind] = listeners
        return listeners

    def _remove(self, gone: Subscription) -> None:
        if gone in self._subscriptions:
            self._dropped_before += gone.dropped
        self._subscriptions = tuple(one for one in self._subscriptions if one is not gone)
