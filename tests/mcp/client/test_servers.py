"""All servers together: the file, what is kept, names, idleness (D68, MCP-54, MCP-55, P93)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.errors import NotFoundError
from app.extend import LOCAL, CallContext, Door, ErrorKind, ToolCall, ToolSpec
from app.mcp.client.consent import Consents, Judged
from app.mcp.client.status import McpServerError, ServerState
from app.observe.bus import EventBus
from app.tools.router import Router
from tests.fixed_tools import FixedTools
from tests.mcp.client.bench import bench, gone, notes, peer
from tests.server import run
from tests.waiting import until


def test_p93_only_servers_that_changed_in_the_file_are_stopped_and_started(tmp_path: Path) -> None:
    async def main() -> None:
        kept, other, new = peer("tools=a"), peer("tools=b"), peer("tools=c")
        async with bench(tmp_path, {"kept": kept, "other": other}) as b:
            changes: list[list[str]] = []
            b.servers.changed(lambda: changes.append(b.names()))
            first, second = b.pid("kept"), b.pid("other")
            b.put({"new": new, "kept": kept, "other": peer("tools=b2")})
            await until(lambda: b.names() == ["new.c", "kept.a", "other.b2"])
            assert b.pid("kept") == first and b.pid("other") != second
            await gone(second)
            b.put({"kept": {**kept, "disabled": True}})
            await until(lambda: b.names() == [])
            await gone(first)
            assert [status.state for status in b.servers.states()] == [ServerState.DISABLED]
            assert changes[-1] == []

    run(main())


def test_a_tool_can_be_called_as_soon_as_it_has_been_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are told a moment later, once for the lists of several servers."""
    monkeypatch.setattr("app.mcp.client.servers.PUBLISH_SECONDS", 1000)

    async def main() -> None:
        async with bench(tmp_path, {"p": peer("tools=echo")}, settle=False) as b:
            (upstream,) = b.servers._upstreams.values()
            await until(lambda: upstream.list.specs)
            assert b.names() == [] and await b.text("p.echo") == "{}" and b.names() == ["p.echo"]

    run(main())


def test_tools_that_a_server_is_said_to_have_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.mcp.client.servers.PUBLISH_SECONDS", 1000)

    async def main() -> None:
        async with bench(tmp_path, {"p": peer("tools=echo")}, settle=False) as b:
            await until(lambda: b.status("p").tools)
            assert b.names() == ["p.echo"]

    run(main())


def test_a_call_that_runs_when_its_server_is_taken_out_ends_with_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "notes"
        async with bench(tmp_path, {"p": peer("tools=silent", f"notes={file}")}) as b:
            calling = asyncio.ensure_future(b.call("p.silent"))
            await until(lambda: "called silent" in notes(file))
            b.put({})
            assert (await calling).error_kind is ErrorKind.EXECUTION

    run(main())


def test_an_idle_server_is_stopped_and_the_next_call_starts_it(tmp_path: Path) -> None:
    async def main() -> None:
        servers = {"p": peer("tools=echo+silent"), "always": peer("tools=echo", autoStart=True)}
        async with bench(tmp_path, servers) as b:
            first, always = b.pid("p"), b.pid("always")
            calling = asyncio.ensure_future(b.call("p.silent"))
            await until(lambda: b.status("p").running)
            b.clock.now += 700
            await asyncio.sleep(0.1)
            assert b.pid("p") == first  # not while a call runs
            calling.cancel()
            await asyncio.wait({calling})
            b.clock.now += 700
            await until(lambda: b.status("p").state is ServerState.IDLE)
            await gone(first)
            assert b.names() == ["p.echo", "p.silent", "always.echo"] and b.pid("always") == always
            assert await b.text("p.echo") == "{}"

    run(main())


def test_mcp_54_tools_are_listed_again_when_the_server_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        told: list[tuple[str, str]] = []
        async with bench(tmp_path, {"p": peer("tools=grow")}) as b:
            b.servers.told_of(lambda server, what: told.append((server, what)))
            b.clock.now += 5
            await b.text("p.grow")
            await until(lambda: b.names() == ["p.grow", "p.grown"])
            assert told == [("p", "tools")]

    run(main())


@pytest.mark.parametrize(("mode", "count"), [("same", 2), ("more", 100)])
def test_mcp_54_there_is_an_end_to_pages(tmp_path: Path, mode: str, count: int) -> None:
    """A repeated cursor, or 100 pages."""

    async def main() -> None:
        file = tmp_path / "notes"
        async with bench(tmp_path, {"p": peer(f"endless-pages={mode}", f"notes={file}")}) as b:
            assert b.status("p").state is ServerState.READY and len(b.names()) == count
            assert notes(file).count("tools/list") == count

    run(main())


def test_d68_a_tool_of_a_server_never_takes_the_name_of_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        servers = {"a.b": peer("tools=c"), "a": peer('bad-tools=[{"name":"b.c"},{"name":"d"}]')}
        async with bench(tmp_path, servers) as b:
            assert b.names() == ["a.b.c", "a.d"]
            assert b.servers.tools()["a.b.c"].origin == "mcp:a.b" and "a.b.c" in caplog.text
            local = ToolSpec("a.d", LOCAL, "mine")
            assert Router((b.servers, FixedTools(local)), (), b.bus).find_spec("a.d") is local

    run(main())


def test_allow_and_deny_choose_the_tools_of_a_server(tmp_path: Path) -> None:
    async def main() -> None:
        entry = peer("tools=read+read_all+write", tools={"allow": ["read*"], "deny": ["*_all"]})
        async with bench(tmp_path, {"p": entry}) as b:
            assert b.names() == ["p.read"]
            assert (await b.call("p.write")).error_kind is ErrorKind.UNKNOWN_TOOL

    run(main())


def consents(home: Path) -> Consents:
    return Consents(home, EventBus())


def test_a_list_that_is_kept_spares_the_start_until_the_first_call(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "notes"
        entry = peer("tools=echo", f"notes={file}")
        async with bench(tmp_path, {"p": entry}, consents=consents(tmp_path)) as b:
            assert b.names() == ["p.echo"]
        file.unlink()
        async with bench(tmp_path, {"p": entry}, consents=consents(tmp_path)) as b:
            assert b.names() == ["p.echo"] and b.status("p").state is ServerState.IDLE and notes(file) == []
            assert await b.text("p.echo") == "{}" and notes(file)

    run(main())


def test_mcp_55_a_tool_that_changed_is_hidden_until_a_person_consents(tmp_path: Path) -> None:
    async def main() -> None:
        kept = consents(tmp_path)
        entry = peer("tools=echo", "changing=1")
        async with bench(tmp_path, {"p": entry}, consents=kept) as b:
            assert b.names() == ["p.echo"]
            assert await b.servers.tools_of("p", refresh=True) == ()
            assert b.status("p").changed == ("echo",) and b.names() == []
            result = await b.call("p.echo")
            assert result.error_kind is ErrorKind.UNKNOWN_TOOL and "until a person consents" in result.message
            assert "no tool is called" in (await b.call("p.other")).message
            await kept.accept("p")
            await until(lambda: b.names() == ["p.echo"])
            assert b.servers.tools()["p.echo"].commands[0].description == "Another one"
            assert await b.text("p.echo") == "{}"

    run(main())


def test_a_call_to_a_server_that_was_never_listed_starts_it_or_tells_why_not(tmp_path: Path) -> None:
    async def main() -> None:
        servers = {"p": peer("tools=echo"), "dead": peer("fail-start"), "off": peer(disabled=True)}
        async with bench(tmp_path, servers, settle=False, on_demand=True) as b:
            await asyncio.sleep(0.1)
            assert b.names() == [] and b.status("p").state is ServerState.IDLE
            call = ToolCall("c", "p.echo", {"N": "5"}, {"N": "5"})  # as marked text has it
            result = await b.router.call(call, CallContext("turn", Door.STREAM))
            assert result.structured == '{"n": 5}'
            assert b.names() == ["p.echo"] and b.status("dead").state is ServerState.IDLE
            result = await b.call("dead.x")
            assert result.error_kind is ErrorKind.EXECUTION and "3" in result.message
            for name in ("p.other", "off.x", "nobody.x", "p", "p."):
                assert (await b.call(name)).error_kind is ErrorKind.UNKNOWN_TOOL

    run(main())


def test_tools_of_one_server_can_be_had_and_an_unknown_one_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, {"p": peer("tools=a+b"), "dead": peer("fail-start")}) as b:
            assert [tool["name"] for tool in await b.servers.tools_of("p")] == ["a", "b"]
            with pytest.raises(NotFoundError):
                await b.servers.tools_of("nobody")
            b.servers.retry("dead")
            with pytest.raises(McpServerError, match="3"):
                await b.servers.tools_of("dead", refresh=True)
            async with b.servers.client("p") as client:
                assert client.server_info is not None and client.server_info.name == "peer"

    run(main())


def test_without_a_prefix_tools_have_their_own_names(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, {"p": peer("tools=echo")}, prefix=False) as b:
            assert b.names() == ["echo"] and await b.text("echo") == "{}"

    run(main())


def test_a_broken_consent_store_costs_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        (tmp_path / ".vcp").write_text("a file where a folder should be")
        async with bench(tmp_path, {"p": peer("tools=echo")}, consents=consents(tmp_path)) as b:
            assert b.status("p").state is ServerState.READY

    run(main())


class KeptLists:
    """A store of lists in which every server has the same tools."""

    def __init__(self, *tools: dict[str, Any]) -> None:
        self.allowed = tools

    async def judge(self, server: str, tools: Sequence[Any], identity: str = "") -> Judged:
        return Judged(tuple(tools))

    async def cached(self, server: str, identity: str = "") -> Judged:
        return Judged(self.allowed)

    def changed(self, told: Callable[[str], None]) -> None:
        """Nothing does."""


def test_fifty_servers_with_many_tools_stay_cheap(tmp_path: Path) -> None:
    """Their lists are kept, so none is started; to have all 10,000 tools is one look."""

    async def main() -> None:
        servers = {f"s{number}": peer("tools=echo") for number in range(50)}
        kept = KeptLists(*({"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(200)))
        async with bench(tmp_path, servers, consents=kept) as b:
            assert len(b.servers.tools()) == 10_000
            assert all(status.state is ServerState.IDLE for status in b.servers.states())
            assert b.servers.tools()["s49.t199"].groups == {"s49"}
            assert b.servers.tools() is b.servers.tools()

    run(main())


def test_everything_works_on_the_loop_that_the_program_uses(tmp_path: Path) -> None:
    """uvloop has pipes and processes of its own."""
    import uvloop

    async def main() -> None:
        file = tmp_path / "notes"
        async with bench(tmp_path, {"p": peer("tools=echo+junk+crash+big", "helper", f"notes={file}")}) as b:
            assert await b.text("p.echo") == "{}" and await b.text("p.junk") == "after junk"
            assert len(await b.text("p.big", n=3_000_000)) == 3_000_000
            assert "7" in (await b.call("p.crash")).message
            b.clock.now += 60
            assert await b.text("p.echo") == "{}"
        helpers = [int(line.split()[1]) for line in notes(file) if line.startswith("helper")]
        assert len(helpers) == 2
        for helper in helpers:
            await gone(helper)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_keys_and_arguments_are_never_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        entry = peer("tools=echo", env={"TOKEN": "very-secret"})
        async with bench(tmp_path, {"p": entry}) as b:
            await b.text("p.echo", text="private words")
            await b.call("p.echo", n="private words")

    with caplog.at_level(logging.DEBUG, logger="app"):
        run(main())
    assert "very-secret" not in caplog.text
    ours = [record for record in caplog.records if record.name.startswith("app.mcp")]
    assert ours and not any("private words" in record.getMessage() for record in ours)
