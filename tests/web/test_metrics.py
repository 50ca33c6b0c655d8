"""``/metrics``: the key is needed unless ``MetricsPublic`` says otherwise (D35)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from app.config.settings import Settings
from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import Reloaded
from app.web.app import create_app
from tests.server import ECHO, call_text, run, running, write_plugin
from tests.web.asgi import BEARER, app_in, ask, services_in


@pytest.mark.parametrize("path", ["/metrics", "/Metrics/"])
def test_they_need_the_key_unless_they_are_public(tmp_path: Path, path: str) -> None:
    assert asyncio.run(ask(app_in(tmp_path), "GET", path)).status == 401
    answer = asyncio.run(ask(app_in(tmp_path), "GET", path, BEARER))
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert asyncio.run(ask(app_in(tmp_path, "MetricsPublic=true"), "GET", path)).status == 200


def test_the_setting_counts_at_once(tmp_path: Path) -> None:
    services = services_in(tmp_path)
    app = create_app(services)
    assert asyncio.run(ask(app, "GET", "/metrics")).status == 401
    services.in_force.config = replace(services.config, settings=Settings(MetricsPublic="true"))  # type: ignore[arg-type]  # read as text
    services.events.publish(Reloaded(("settings",)))
    assert asyncio.run(ask(app, "GET", "/metrics")).status == 200


def test_a_turn_with_a_tool_and_blocked_addresses_are_seen_in_a_running_server(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Echo", ECHO)
    (tmp_path / "ip_blacklist.json").write_text('["9.9.9.9"]', encoding="utf-8")

    async def main() -> None:
        async with (
            ScriptedUpstream([say(call_text("Echo", text="secret words")), say("done")]) as up,
            running(tmp_path, up.base_url) as server,
        ):
            await server.stream("hello", model="some-model")
            text = (await server.client.get("/metrics")).text
            for line in (
                'vcp_turns_total{outcome="success",stream="true"} 1.0',
                "vcp_rounds_total 2.0",
                'vcp_tool_calls_total{outcome="success",tool="Echo"} 1.0',
                "vcp_running_turns 0.0",
                'vcp_plugin_processes{state="running"} 0.0',
                "vcp_blocked_addresses 1.0",
                "vcp_blocked_logins 0.0",
                "vcp_dropped_events_total 0.0",
                "vcp_ready 1.0",
            ):
                assert line in text.splitlines()
            for secret in ("secret words", "some-model", "upstream-key", "hello"):
                assert secret not in text

    run(main())
