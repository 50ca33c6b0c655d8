"""The example client of the tool socket's documentation, in JavaScript, against a real server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.program import LONGEST, Program, started

pytestmark = pytest.mark.external

SCRIPT = Path(__file__).with_name("tool_client.mjs")
DIRECT = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    home = tmp_path_factory.mktemp("home")
    with socket.create_server(("127.0.0.1", 0)) as free:
        (home / "config.env").write_text(f"ToolSocketPort={free.getsockname()[1]}\n", encoding="utf-8")
    with started("serve", "--port", "0", cwd=home) as program:
        yield program


def met(server: Program, scenario: str, way: str = "port") -> Any:
    """What the clients of a scenario met; ``way`` is how they connect."""
    base = "ws" + server.base_url.removesuffix("/v1").removeprefix("http") + "/ws/tools"
    words = {
        "port": (server.told("tool clients"),),
        "path": (f"{base}/VCP_Key={server.key}",),
        "sub-protocol": (base, server.key),
    }[way]
    done = subprocess.run(
        ("node", str(SCRIPT), scenario, *words),
        env=DIRECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", ["port", "path", "sub-protocol"])
def test_the_example_of_owner_and_caller_works(server: Program, way: str) -> None:
    """As it stands in the documentation: on its own port, without a key."""
    seen = met(server, "greet", way)
    asked = {"executionId": "e1", "name": "greet", "args": {"name": "世界"}}
    finish = {"type": "tool_execution_completed", "data": {"executionId": "e1", "result": "Hello, 世界!"}}
    start = {"type": "tool_execution_started", "data": asked}
    assert seen["owner"][1:] == [start, {"type": "execute_tool", "data": asked}, finish]
    assert seen["caller"] == [start, finish]


def test_failures_of_the_example_have_their_codes(server: Program) -> None:
    seen = met(server, "failing")
    codes = [
        (frame["data"]["executionId"], frame["data"]["error"]["code"])
        for frame in seen["caller"]
        if frame["type"] == "tool_execution_failed"
    ]
    assert codes == [("e1", "INVALID_ARGUMENTS"), ("e2", "TOOL_EXECUTION_FAILED"), ("e3", "TOOL_NOT_FOUND")]
    assert [frame["type"] for frame in seen["owner"]].count("execute_tool") == 1


def test_a_shipped_tool_is_run_by_its_name(server: Program) -> None:
    assert "84" in json.dumps(met(server, "ours")["done"]["data"]["result"])


def test_an_owner_that_is_cut_off_fails_its_run(server: Program) -> None:
    assert [frame["type"] for frame in met(server, "leaving")["caller"]] == [
        "tool_execution_started",
        "tool_execution_failed",
        "tool_unregistered",
    ]
