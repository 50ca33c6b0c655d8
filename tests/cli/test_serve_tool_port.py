"""``vcp serve`` with a port of its own for tool clients, as existing ones connect to it (WS-16, D63)."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from tests.cli.commands import refused
from tests.hub.clients import connected
from tests.program import started
from tests.server import run


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_tool_clients_use_the_port_that_the_start_names_and_are_told_goodbye(tmp_path: Path) -> None:
    async def test() -> None:
        environ = {"ToolSocketPort": str(free_port())}
        with started("serve", "--port", "0", cwd=tmp_path, environ=environ) as program:
            told = re.search(r"tool clients / 工具客户端 +(ws://127\.0\.0\.1:\d+)", program.banner)
            assert told is not None
            assert told[1].endswith(f":{environ['ToolSocketPort']}")
            with pytest.raises(InvalidStatus) as refusal:
                async with connected(told[1], origin="https://evil.example"):
                    pass
            assert refusal.value.response.status_code == 403
            async with connected(told[1]) as client:
                await client.send({"type": "list_tools"})
                assert "data" in await client.receive_type("tools_list")
                program.process.send_signal(signal.SIGTERM)
                assert (await client.goodbye(after_more=True))[0] == 1001
            assert await asyncio.to_thread(program.ended) == 0
            assert "Traceback" not in program.logged

    run(test())


def test_a_port_that_is_taken_is_told_before_anything_is_started(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        (tmp_path / "config.env").write_text(f"ToolSocketPort={number}\n", encoding="utf-8")
        told = refused(capsys, "serve", "--home", str(tmp_path), "--port", "0")
    assert "ToolSocketPort" in told
    assert str(number) in told
