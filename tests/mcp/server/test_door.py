"""The door as the SDK's clients of both eras see it."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.server.bench import ERAS, DoorBench, says
from tests.server import run


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_is_listed_and_called(era: str) -> None:
    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Echo", says, display="回声")
            async with bench.client(era) as client:
                (tool,) = (await client.list_tools()).tools
                assert (tool.name, tool.title, tool.description) == ("Echo", "回声", "Runs Echo")
                assert tool.input_schema == {"type": "object", "additionalProperties": True}
                result = await client.call_tool("Echo", {"a": [1, None]})
                assert result.structured_content == {"said": {"a": [1, None]}}
                assert not result.is_error
                assert [part.type for part in result.content] == ["text"]

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_an_unknown_tool_is_an_error_of_the_protocol_with_a_hint(era: str) -> None:
    """MCP-21, STD-36: -32602, ``data.hint``, ``data.availableToolCount``; also for what the door does not show."""

    async def main() -> None:
        async with DoorBench() as bench:
            bench.tools.add("Echo", says)
            bench.tools.add("Hidden", says)
            bench.shown = type(bench.shown)(deny=("Hidden",))
            async with bench.client(era) as client:
                for name in ("Nobody", "Hidden", ""):
                    with pytest.raises(MCPError) as caught:
                        await client.call_tool(name, {})
                    assert caught.value.code == -32602
                    assert caught.value.data["availableToolCount"] == 1
                    assert "tools/list" in caught.value.data["hint"]
            assert bench.tools.calls == []

    run(main())
