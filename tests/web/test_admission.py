"""What the listeners of a server share."""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.web.admission import MIB, LimitsOfNow, admission
from tests.web.asgi import services_in


def test_limits_are_those_of_the_settings_of_now_and_made_once(tmp_path: Path) -> None:
    settings = services_in(tmp_path, "SocketQueueMB=3", "SocketIncomingMB=5", "SocketPingSeconds=7").settings
    limits = LimitsOfNow(lambda: settings, lambda now: now.tool_socket_frames_per_second)
    first = limits(1000)
    assert (first.message_bytes, first.queue_bytes, first.incoming_bytes) == (1000, 3 * MIB, 5 * MIB)
    assert (first.frames_per_second, first.ping_seconds) == (100, 7)
    assert limits(1000) is first
    assert limits(2000).message_bytes == 2000
    settings = settings.model_copy(update={"socket_queue_mb": 4})
    assert limits(1000).queue_bytes == 4 * MIB


def test_metrics_tell_every_way_in_which_a_websocket_ends_from_the_start(tmp_path: Path) -> None:
    services = services_in(tmp_path)
    shared = admission(services)
    shared.traffic.ended["flood"] += 2

    async def asked() -> str:
        return services.metrics.text().decode()

    text = asyncio.run(asked())
    assert 'vcp_sockets_ended_total{reason="flood"} 2.0' in text
    assert 'vcp_sockets_ended_total{reason="slow"} 0.0' in text
    assert 'vcp_clients{type="DistributedServer"} 0.0' in text
