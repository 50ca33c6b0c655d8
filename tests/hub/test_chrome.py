"""Browsers and those who steer them (spec 6.6, 10.6 W7, W8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hub.clients import SOCKET_KEY, address, connected
from tests.server import run, running

UPSTREAM = "http://127.0.0.1:9"
CONFIG = (f"VCP_Key={SOCKET_KEY}",)
OBSERVER, CONTROL = "/vcp-chrome-observer", "/vcp-chrome-control"


def test_a_heartbeat_is_answered_with_a_number(tmp_path: Path) -> None:  # W7
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url, OBSERVER)) as browser,
        ):
            await browser.send({"type": "heartbeat"})
            answer = await browser.receive()
            assert answer.keys() == {"type", "timestamp"}
            assert answer["type"] == "heartbeat_ack"
            assert isinstance(answer["timestamp"], int)
            assert answer["timestamp"] > 1_700_000_000_000

    run(main())


@pytest.mark.parametrize("data", [{"requestId": "r", "command": "click"}, {}, None, "x", [1]])
def test_a_command_without_a_browser_is_answered_with_an_error(tmp_path: Path, data: Any) -> None:  # W8
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url, CONTROL)) as control,
        ):
            await control.send({"type": "command", "data": data})
            request_id = data.get("requestId") if isinstance(data, dict) else None
            error = "No active Chrome browser extension found."
            expected = {"requestId": request_id, "status": "error", "error": error}
            assert await control.receive() == {"type": "command_result", "data": expected}

    run(main())


def test_a_command_goes_to_the_first_browser_and_its_result_back_to_who_gave_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url, OBSERVER)) as browser,
            connected(address(server.url, OBSERVER)) as second,
            connected(address(server.url, CONTROL)) as other,
            connected(address(server.url, CONTROL)) as control,
        ):
            await control.send({"type": "command", "data": {"requestId": "r", "command": "open_url", "url": "u"}})
            command = await browser.receive()
            source = command["data"].pop("sourceClientId")
            assert command == {"type": "command", "data": {"requestId": "r", "command": "open_url", "url": "u"}}
            for wrong in ({}, {"sourceClientId": ["x"]}, {"sourceClientId": "nobody"}, None):
                await browser.send({"type": "command_result", "data": wrong})
            result = {"requestId": "r", "sourceClientId": source, "status": "success", "message": "ok", "more": 1}
            await browser.send({"type": "command_result", "data": result})
            told = {"requestId": "r", "status": "success", "message": "ok"}
            assert await control.receive() == {"type": "command_result", "data": told}
            await other.nothing_waits()
            await second.nothing_waits()

    run(main())
