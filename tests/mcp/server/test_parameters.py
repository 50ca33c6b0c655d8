"""Parameters that no method has are named (MCP-5)."""

from __future__ import annotations

import pytest

from app.errors import both
from tests.mcp.server.bench import MODERN, DoorBench, says
from tests.mcp.server.raw import connected, modern
from tests.server import run

WRONG = [
    ("tools/call", {"name": "Echo", "arguments": ["a secret"]}, "params.arguments"),
    ("tools/call", {"arguments": {}}, "params.name"),
    ("tools/list", {"cursor": 5}, "params.cursor"),
]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", MODERN])
def test_mcp_5_the_error_says_which_parameter_is_wrong_and_never_what_it_holds(version: str) -> None:
    """STD-37, MCP-22, D71: arguments that are no object are -32602; the tool is not asked."""

    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            bench.tools.add("Echo", says)
            if version != MODERN:
                await raw.hello(version)
            for method, params, place in WRONG:
                error = (await raw.ask(method, modern(params) if version == MODERN else params))["error"]
                assert error["code"] == -32602
                assert place in error["message"]
                assert error["message"].startswith(both(f"{method} 的参数有误", f"parameters of {method} are wrong"))
                assert "secret" not in str(error)
            assert bench.tools.calls == []
            if version != MODERN:
                loud = (await raw.ask("logging/setLevel", {"level": "loud"}))["error"]
                assert "params.level" in loud["message"] and "'warning'" in loud["message"]

    run(main())


def test_mcp_10_a_request_before_the_handshake_is_told_what_has_to_come_first() -> None:
    async def main() -> None:
        async with DoorBench() as bench, connected(bench.door) as raw:
            error = (await raw.ask("tools/list"))["error"]
            assert (error["code"], "comes after initialize" in error["message"]) == (-32602, True)

    run(main())
