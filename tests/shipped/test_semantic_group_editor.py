"""SemanticGroupEditor and its other name SGManager in a running server (memory.md 5.1, 6.2; vcp-core 5.10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.protocol.tool_blocks import parse_request
from tests.server import call_text, run, running

PLUGINS = Path(__file__).resolve().parents[2] / "Plugin"


@pytest.mark.parametrize("tool", ["SemanticGroupEditor", "SGManager"])
def test_the_examples_of_the_manifest_change_and_list_groups(tmp_path: Path, tool: str) -> None:
    manifest = json.loads((PLUGINS / tool / "plugin-manifest.json").read_text("utf-8"))
    query, update = (one["example"] for one in manifest["capabilities"]["invocationCommands"])

    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            for example, expected in ((update, "编程"), (query, "代码, 函数, 算法, 调试")):
                said = call_text(tool, **dict(parse_request(example).arguments)).encode()
                answer = await server.client.post(
                    "/v1/human/tool", content=said, headers={"Content-Type": "text/plain"}
                )
                assert answer.status_code == 200
                assert expected in answer.text.encode().decode("utf-8")

    run(main())
