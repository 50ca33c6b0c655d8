"""MCP servers that mean harm: each costs its own calls and nobody else's (MCP-54, MCP-55, P85, P94; D9, D31)."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.extend import ErrorKind
from app.mcp.client import stdio_link, tap
from app.mcp.client.mending import MAX_TOOLS
from app.mcp.client.status import ServerLimits, ServerState
from tests.mcp.client.bench import bench, peer
from tests.server import run

HOSTILE = str(Path(__file__).with_name("hostile.py"))
LIMITS = ServerLimits(connect_seconds=20, call_seconds=20, result_bytes=8 * 1024 * 1024)

GROWN_MIB = 200


def hostile(mode: str, **entry: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", HOSTILE, mode], **entry}


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limits that are soon reached; the test fails when this process grew beyond them.

    How long one step of the loop takes is measured by ``pytest -p bench.loop_steps``, since it depends on the machine.
    """
    monkeypatch.setattr(tap, "UNASKED_BURST", 100.0)
    monkeypatch.setattr(stdio_link, "JUNK_LINES", 2_000)
    before = _peak()
    yield
    assert _peak() - before < GROWN_MIB


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


WORKS = ("notes", "empty-lines", "binary", "ids", "sampling/createMessage", "elicitation/create", "roots/list")
FAILS = {"many-values": "250000", "frame": "8 MiB", "half": "0", "junk-lines": "no message"}


def test_p85_while_many_servers_attack_at_once_all_others_go_on(tmp_path: Path, bounded: None) -> None:
    async def main() -> None:
        modes = (
            *WORKS,
            *FAILS,
            "many-parts",
            "many-tools",
            "endless-pages",
            "bombs",
            "early",
            "too-deep",
            "million-tools",
        )
        servers = {mode.partition("/")[0]: hostile(mode) for mode in modes}
        async with bench(tmp_path, {**servers, "good": peer()}, limits=LIMITS) as b:
            attacks = {mode: asyncio.ensure_future(b.call(f"{mode.partition('/')[0]}.hit")) for mode in modes[:-6]}
            good = 0
            while not all(attack.done() for attack in attacks.values()):
                assert await b.text("good.echo", text="hello") == '{"text": "hello"}'
                good += 1
                await asyncio.sleep(0.05)
            results = {mode: attack.result() for mode, attack in attacks.items()}
            for mode in WORKS:
                assert results[mode].structured == "after all", mode
            for mode, told in FAILS.items():
                assert results[mode].error_kind in (ErrorKind.PLUGIN, ErrorKind.EXECUTION), mode
                assert told in results[mode].message and len(results[mode].message) < 3_000, mode
            assert results["many-parts"].ok and good > 1
            assert len(b.progress) <= 300
            tools = b.servers.tools()
            of = {mode: [name for name in tools if name.startswith(f"{mode}.")] for mode in servers}
            assert len(of["many-tools"]) == MAX_TOOLS and of["endless-pages"] == ["endless-pages.hit"]
            for name in of["bombs"]:
                for text in ("a" * 5_000 + "b", "x"):
                    result = await b.call(name, text=text, a={"a": {}})
                    assert result.ok or result.error_kind is ErrorKind.PLUGIN, name
            assert "protocol" in b.status("early").error and "deeply" in b.status("too-deep").error
            assert "MiB" in b.status("million-tools").error
            assert b.status("good").state is ServerState.READY

    run(main())


def test_mcp_55_p90_no_name_or_text_of_a_server_is_more_than_data(tmp_path: Path) -> None:
    """Names with paths, control characters or marks of calls are left out; reserved ones stay behind the prefix."""

    async def main() -> None:
        async with bench(tmp_path, {"evil": hostile("names"), "mark": hostile("markers")}) as b:
            assert b.names() == [
                *("evil.hit", "evil.../../etc/passwd", "evil.Mine", "evil.get-modular-tools", "evil..."),
                *("evil.__proto__", "evil.good.echo", "evil.工具", "mark.hit"),
            ]
            assert "「始」" in await b.text(
                "mark.hit"
            )  # what is done with marks in results is the loop's business (D9)

    run(main())
