"""What all listeners of one server know together: who is refused, and what the open WebSockets cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.config.settings import Settings
from app.services import Services
from app.web.blocking import AddressBlocks
from app.web.socket_traffic import SocketLimits, SocketTraffic

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Admission:
    """One for each server."""

    blocks: AddressBlocks
    traffic: SocketTraffic


def admission(services: Services) -> Admission:
    """What the listeners of these services share; its numbers are in ``/metrics``."""
    blocks = AddressBlocks(
        services.config.home / "ip_blacklist.json",
        enabled=lambda: services.settings.ip_blacklist,
        clock=time.monotonic,
    )
    traffic = SocketTraffic()
    watch = services.metrics.watch
    watch("vcp_blocked_addresses", "Addresses that are refused now.", blocks.count)
    watch("vcp_socket_incoming_bytes", "What unfinished messages of clients hold.", lambda: traffic.incoming)
    watch(
        "vcp_sockets_ended",
        "WebSockets that ended, by reason.",
        lambda: {(why,): number for why, number in traffic.ended.items()},
        labels=("reason",),
        counts=True,
    )
    return Admission(blocks, traffic)


class LimitsOfNow:
    """The limits of WebSockets by their longest message, made once for each state of the settings."""

    def __init__(self, settings: Callable[[], Settings], frames_per_second: Callable[[Settings], int]) -> None:
        self._settings = settings
        self._frames_per_second = frames_per_second
        self._made_of: Settings | None = None
        self._made: dict[int, SocketLimits] = {}

    def __call__(self, message_bytes: int) -> SocketLimits:
        """The limits of now."""
        settings = self._settings()
        if settings is not self._made_of:
            self._made_of, self._made = settings, {}
        found = self._made.get(message_bytes)
        if found is None:
            found = self._made[message_bytes] = SocketLimits(
                message_bytes=message_bytes,
                queue_bytes=settings.socket_queue_mb * MIB,
                incoming_bytes=settings.socket_incoming_mb * MIB,
                frames_per_second=self._frames_per_second(settings),
                ping_seconds=settings.socket_ping_seconds,
            )
        return found
