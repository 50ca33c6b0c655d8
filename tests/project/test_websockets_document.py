"""``docs/websockets.md``: its exchange of frames happens as it is printed, its commands are those of the README."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.hub.tool_clients.wire_tool_clients import CONFIG, UPSTREAM, tool_client
from tests.program import ROOT
from tests.server import run, running

TEXT = (ROOT / "docs" / "websockets.md").read_text(encoding="utf-8")


def exchange() -> list[tuple[str, str, str]]:
    """Each line of the example of tool clients: who, which way, and the frame."""
    (block,) = re.findall(r"^```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return re.findall(r"^(A|B|all)(→|←) +(\{.*\})$", block, re.MULTILINE)


def test_the_exchange_of_frames_happens_as_it_is_printed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            tool_client(server) as a,
            tool_client(server) as b,
        ):
            clients = {"A": [a], "B": [b], "all": [a, b]}
            schema: Any = None
            lines = exchange()
            assert len(lines) == 7
            for who, way, text in lines:
                if way == "→":
                    await clients[who][0].send(text)
                    schema = schema or json.loads(text)["data"].get("schema")
                    continue
                for client in clients[who]:
                    assert await client.receive() == json.loads(text.replace("{…}", json.dumps(schema))), text
            for client in (a, b):
                await client.nothing_waits()

    run(main())


def test_a_look_at_the_log_is_typed_as_in_the_readme() -> None:
    (line,) = re.findall(r"^python (-m websockets .*)$", TEXT, re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert line.replace("$(cat .vcp/server.key)", "$KEY") in readme
