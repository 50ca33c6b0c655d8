"""The examples of the documentation in JavaScript, a tool client and a page, against a real server."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.program import LONGEST, ROOT, Program, started
from tests.server import call_text

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


def test_the_example_of_our_documentation_is_a_tool(server: Program) -> None:
    text = (ROOT / "docs" / "websockets.md").read_text(encoding="utf-8").partition("## Tool clients")[2]
    port = server.base_url.removesuffix("/v1").rpartition(":")[2]
    code = text.partition("```js\n")[2].partition("```")[0].replace("127.0.0.1:6005", f"127.0.0.1:{port}")
    client = subprocess.Popen(
        ("node", "--input-type=module", "-e", code), cwd=SCRIPT.parent, env={**DIRECT, "KEY": server.key}
    )
    try:
        block = "<<<[TOOL_REQUEST]>>>\ntool_name:「始」roll「末」\n<<<[END_TOOL_REQUEST]>>>"
        headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "text/plain"}
        until = time.monotonic() + LONGEST
        while True:
            url = f"{server.base_url}/human/tool"
            answer = httpx.post(url, content=block.encode(), headers=headers, trust_env=False)
            if answer.status_code == 200 or client.poll() is not None or time.monotonic() > until:
                break
            time.sleep(0.1)
        assert answer.json()["original_plugin_output"] in range(1, 7)
    finally:
        client.kill()
        client.wait()


def test_the_page_of_our_documentation_is_told_of_calls(server: Program) -> None:
    """Its script alone, with the ``WebSocket`` of the package ``ws``, whose interface is that of browsers."""
    text = (ROOT / "docs" / "websockets.md").read_text(encoding="utf-8")
    port = server.base_url.removesuffix("/v1").rpartition(":")[2]
    script = text.partition('<script type="module">\n')[2].partition("</script>")[0]
    code = script.replace("127.0.0.1:6005", f"127.0.0.1:{port}").replace("the key", server.key)
    client = subprocess.Popen(
        ("node", "--input-type=module", "-e", f'import WebSocket from "ws";\n{code}'),
        cwd=SCRIPT.parent,
        env=DIRECT,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert client.stdout is not None
        block = call_text("SciCalculator", expression="6*7")
        headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "text/plain"}
        until = time.monotonic() + LONGEST
        while not select.select([client.stdout], [], [], 0.1)[0] and time.monotonic() < until:
            httpx.post(f"{server.base_url}/human/tool", content=block.encode(), headers=headers, trust_env=False)
        assert client.stdout.readline().startswith("SciCalculator success {")
    finally:
        client.kill()
        client.communicate()
