"""``vcp serve`` with MCP clients (P83)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx

from tests.program import LONGEST, started
from tests.server import run
from tests.web.mcp_posts import BOTH, initialize, post


def test_a_client_that_listens_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    """P83: the grace is longer than the test may take. Names of sessions are in no log."""

    async def main() -> None:
        lines = ("API_URL=http://127.0.0.1:9", "Key=k", f"ShutdownSeconds={10 * LONGEST}")
        (tmp_path / "config.env").write_text("\n".join(lines) + "\n", encoding="utf-8")
        with started("serve", "--port", "0", cwd=tmp_path) as program:
            async with httpx.AsyncClient(
                base_url=program.base_url.removesuffix("/v1"),
                headers={"Authorization": "Bearer k"},
                timeout=LONGEST,
                trust_env=False,
            ) as client:
                opened = await post(client, initialize())
                session = opened.headers["mcp-session-id"]
                headers = {"accept": BOTH, "mcp-session-id": session}
                async with client.stream("GET", "/mcp", headers=headers, timeout=LONGEST) as stream:
                    assert stream.status_code == 200
                    program.process.send_signal(signal.SIGTERM)
                    async for _ in stream.aiter_lines():
                        pass
            assert await asyncio.to_thread(program.ended) == 0
            assert "Traceback" not in program.logged and session not in program.logged, program.logged

    run(main())
