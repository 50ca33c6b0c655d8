"""Servers on standard streams, well behaved and badly (MCP-51, MCP-53, P85, P91, P92, P94)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from app.extend import ErrorKind
from app.mcp.client.status import ServerLimits, ServerState
from tests.mcp.client.bench import bench, gone, lives, notes, peer
from tests.server import run
from tests.waiting import until

ALL = "tools=echo+environment+crash+silent+slow+progress+refuse+fail+big+junk+flood+batch+logs+grow"


def test_a_server_does_its_work_and_its_faults_are_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process through everything that it should survive (MCP-51, P94, P96)."""

    async def main() -> None:
        limits = ServerLimits(connect_seconds=20, call_seconds=20, result_bytes=1024 * 1024)
        async with bench(tmp_path, {"p": peer(ALL)}, limits=limits) as b:
            assert json.loads(await b.text("p.echo", text="你好")) == {"text": "你好"}
            pid = b.pid("p")

            environment = json.loads(await b.text("p.environment"))
            assert "PATH" in environment and "API_Key" not in environment  # D72

            result = await b.call("p.refuse")
            assert result.error_kind is ErrorKind.PLUGIN and "not like this" in result.message
            result = await b.call("p.fail")
            assert result.error_kind is ErrorKind.PLUGIN and result.message == "it went wrong"
            result = await b.call("p.echo", n="many")
            assert result.error_kind is ErrorKind.PLUGIN and "$.n" in result.message

            assert await b.text("p.junk") == "after junk"  # MCP-51: dropped with a warning, not fatal
            assert caplog.text.count("is no message") == 3 and "just a log line" in caplog.text
            assert await b.text("p.batch") == "in a batch"
            assert await b.text("p.flood") == "after flood"  # read always, logged with measure
            assert 0 < sum("[p] " in line for line in caplog.messages) < 150
            assert max(len(line) for line in caplog.messages) < 2_100

            result = await b.call("p.big", n=2_000_000)  # P94: refused by name, the next call works
            assert not result.ok and "1 MiB" in result.message
            assert len(await b.text("p.big", n=500_000)) == 500_000

            await b.text("p.progress")
            assert [(event.progress, event.total, event.message) for event in b.progress] == [
                (done, 4.0, f"step {done:g}") for done in (1.0, 2.0, 3.0, 4.0)
            ]
            assert {(event.turn_id, event.call_id) for event in b.progress} == {("turn", "call")}
            assert b.pid("p") == pid
            assert (await b.call("p.nothing")).error_kind is ErrorKind.UNKNOWN_TOOL

    monkeypatch.setenv("API_Key", "secret")
    with caplog.at_level(logging.INFO):
        run(main())


def test_p85_one_server_that_fails_does_not_disturb_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        servers = {
            "none": {"command": "no-such-program"},
            "dead": peer("fail-start"),
            "mute": peer("mute", connectSeconds=0.8),
            "good": peer("tools=echo"),
            "lost": peer(cwd="nowhere"),
        }
        async with bench(tmp_path, servers) as b:
            assert b.names() == ["good.echo"]
            assert await b.text("good.echo") == "{}"
            states = {status.name: status for status in b.servers.states()}
            failed = [name for name, status in states.items() if status.state is ServerState.FAILED]
            assert failed == ["none", "dead", "mute", "lost"]
            assert "no-such-program" in states["none"].error and "3" in states["dead"].error
            assert "0.8" in states["mute"].error and "nowhere" in states["lost"].error
            for status in states.values():  # one line for everybody, the whole for who runs the server
                assert "\n" not in status.error and len(status.error) <= 200 and "/home/" not in status.error
            assert "/home/somebody/secret.key" in states["dead"].details
        for name in failed:
            assert f"MCP server {name} failed" in caplog.text

    run(main())


def test_p92_a_server_that_was_killed_is_started_anew_at_the_next_call(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "notes"
        async with bench(tmp_path, {"p": peer("tools=echo+silent", f"notes={file}")}) as b:
            pid = b.pid("p")
            calling = asyncio.ensure_future(b.call("p.silent"))
            await until(lambda: "called silent" in notes(file))
            b.clock.now += 60  # it ran for long enough not to be one that dies at once
            os.kill(pid, signal.SIGKILL)
            result = await calling  # a clear error, in the call
            assert result.error_kind is ErrorKind.EXECUTION and "p" in result.message and "9" in result.message
            assert await b.text("p.echo") == "{}"
            assert b.pid("p") != pid

    run(main())


def test_p92_a_call_right_after_the_death_works_or_tells_of_it(tmp_path: Path) -> None:
    """Nobody can say whether such a server got the call, so it is not repeated by itself."""

    async def main() -> None:
        async with bench(tmp_path, {"p": peer("tools=echo")}) as b:
            b.clock.now += 60
            os.kill(b.pid("p"), signal.SIGKILL)
            result = await b.call("p.echo")
            assert result.ok or "9" in result.message
            assert await b.text("p.echo") == "{}"

    run(main())


def test_p92_a_server_that_could_not_be_started_is_tried_again_before_anybody_calls_it(tmp_path: Path) -> None:
    """Also when its tools are known: who is shown groups (mcp.md 2.4) is not shown one that failed, so cannot call."""

    async def main() -> None:
        file = tmp_path / "notes"
        async with bench(tmp_path, {"p": peer("tools=echo+crash", f"notes={file}")}) as b:
            await b.call("p.crash")  # at once after its start, so this is a failure
            await until(lambda: b.status("p").state is ServerState.FAILED)
            assert sum(line.startswith("started") for line in notes(file)) == 1  # not before the pause is over
            b.clock.now += 1
            await until(lambda: b.status("p").state is ServerState.READY)
            assert b.status("p").error == ""
            b.clock.now += 60
            os.kill(b.pid("p"), signal.SIGKILL)  # it did run, so the next call is early enough
            await until(lambda: b.status("p").state is ServerState.IDLE)
            assert "9" in b.status("p").error
            assert await b.text("p.echo") == "{}"

    run(main())


def test_p92_a_crash_in_a_call_tells_the_exit_code_and_a_server_that_keeps_dying_is_left_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, {"p": peer("tools=echo+crash")}) as b:
            result = await b.call("p.crash")
            assert result.error_kind is ErrorKind.EXECUTION and "7" in result.message
            await until(lambda: b.status("p").state is ServerState.FAILED)
            assert "going down" in b.status("p").details
            b.clock.now += 1
            await b.call("p.crash")
            await until(lambda: b.status("p").state is ServerState.FAILED)
            b.clock.now += 2
            await b.call("p.crash")
            await until(lambda: b.status("p").state is ServerState.FAILED)
            result = await b.call("p.echo")  # MOD-12: now the pause is 4 s, longer than a call waits
            assert not result.ok and "7" in result.message and "4 s" in result.message
            b.clock.now += 4
            assert await b.text("p.echo") == "{}"

    run(main())


def test_mcp_53_a_silent_call_ends_in_time_and_is_cancelled_at_the_server(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "notes"
        limits = ServerLimits(connect_seconds=20, call_seconds=0.2)
        async with bench(tmp_path, {"p": peer("tools=silent+echo", f"notes={file}")}, limits=limits) as b:
            result = await b.call("p.silent")
            assert result.error_kind is ErrorKind.TIMEOUT and "p" in result.message
            await until(lambda: "notifications/cancelled" in notes(file))
            assert await b.text("p.echo") == "{}"

    run(main())


def test_a_cancelled_call_is_cancelled_at_the_server_and_the_server_lives(tmp_path: Path) -> None:
    """MCP-60: cancel passes on."""

    async def main() -> None:
        file = tmp_path / "notes"
        async with bench(tmp_path, {"p": peer("tools=silent+echo", f"notes={file}")}) as b:
            calling = asyncio.ensure_future(b.call("p.silent"))
            await until(lambda: "called silent" in notes(file))
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            await until(lambda: "notifications/cancelled" in notes(file))
            assert await b.text("p.echo") == "{}" and b.status("p").running == 0

    run(main())


def test_d74_p91_the_limit_of_a_tool_or_server_holds_silent_or_not(tmp_path: Path) -> None:
    async def main() -> None:
        limits = ServerLimits(connect_seconds=20, call_seconds=0.05, call_max_seconds=0.05)
        servers = {
            "own": peer("tools=slow+silent", timeout=20, tools={"timeouts": {"silent": 0.1}}),
            "none": peer("tools=slow"),
        }
        async with bench(tmp_path, servers, limits=limits) as b:
            assert await b.text("own.slow", text="0.3") == "slow"
            assert (await b.call("own.silent")).error_kind is ErrorKind.TIMEOUT
            assert (await b.call("none.slow", text="0.3")).error_kind is ErrorKind.TIMEOUT
            assert b.servers.tools()["own.slow"].timeout == 20 and b.servers.tools()["own.silent"].timeout == 0.1

    run(main())


def test_mcp_53_progress_extends_a_call(tmp_path: Path) -> None:
    async def main() -> None:
        limits = ServerLimits(connect_seconds=20, call_seconds=0.25, call_max_seconds=20)
        async with bench(tmp_path, {"p": peer("tools=progress")}, limits=limits) as b:
            assert await b.text("p.progress") == "done"

    run(main())


@pytest.mark.parametrize("modes", [["deaf"], ["dies-of-discover"], ["slow-start=0.2"], ["version=2024-11-05"]])
def test_mcp_50_each_kind_of_old_server_is_spoken_to(tmp_path: Path, modes: list[str]) -> None:
    """Silence, and even death, at the new first word lead to the old one (MCP-1, MCP-50)."""

    async def main() -> None:
        file = tmp_path / "notes"
        async with bench(tmp_path, {"p": peer("tools=echo", f"notes={file}", *modes)}, probe_seconds=0.1) as b:
            assert await b.text("p.echo") == "{}"
            assert b.status("p").protocol == ("2024-11-05" if "version=2024-11-05" in modes else "2025-11-25")
            assert notes(file).count("server/discover") == 1
            b.clock.now += 10_000
            await until(lambda: b.status("p").state is ServerState.IDLE)
            assert await b.text("p.echo") == "{}"
            assert notes(file).count("server/discover") == 1  # what was found out is kept

    run(main())


def test_a_server_that_speaks_no_known_revision_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with bench(tmp_path, {"p": peer("version=1999-01-01")}) as b:
            assert b.status("p").state is ServerState.FAILED and "1999-01-01" in b.status("p").error

    run(main())


def test_mcp_51_closing_asks_first_then_insists_and_nothing_of_the_group_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        polite, stubborn = tmp_path / "polite", tmp_path / "stubborn"
        servers = {
            "polite": peer("helper", f"notes={polite}"),
            "stubborn": peer("stubborn", "helper", f"notes={stubborn}"),
        }
        async with bench(tmp_path, servers, stop_seconds=0.2) as b:
            pids = [b.pid("polite"), b.pid("stubborn")]
        for file in (polite, stubborn):
            helper = next(int(line.split()[1]) for line in notes(file) if line.startswith("helper"))
            pids.append(helper)
        for pid in pids:
            await gone(pid)
        assert "end of input" in notes(polite) and "SIGTERM" in notes(stubborn)

    run(main())


def test_a_server_is_ended_also_when_everything_around_it_is_cancelled(tmp_path: Path) -> None:
    pids: list[int] = []

    async def main() -> None:
        async with bench(tmp_path, {"p": peer("tools=echo")}) as b:
            pids.append(b.pid("p"))
            raise KeyError("the program fails")

    with pytest.raises(KeyError):
        run(main())
    assert pids and not lives(pids[0])


def test_a_loop_that_ends_while_servers_run_leaves_none_behind(tmp_path: Path) -> None:
    pids: list[int] = []

    async def main() -> None:
        opened = bench(tmp_path, {"p": peer("tools=echo")})
        b = await opened.__aenter__()
        pids.append(b.pid("p"))

    asyncio.run(main())
    assert not lives(pids[0])


def test_endless_output_without_a_line_end_is_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        limits = ServerLimits(connect_seconds=20, call_seconds=0.3, result_bytes=1024 * 1024)
        async with bench(tmp_path, {"p": peer("tools=endless")}, limits=limits, stop_seconds=0.1) as b:
            result = await b.call("p.endless")
            assert result.error_kind is ErrorKind.TIMEOUT

    run(main())


def test_mod_12_one_server_is_started_once_however_many_call_it(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "notes"
        async with bench(tmp_path, {"p": peer("tools=echo", f"notes={file}")}, settle=False) as b:
            texts = await asyncio.gather(*(b.text("p.echo", text=str(number)) for number in range(20)))
            assert sorted(json.loads(text)["text"] for text in texts) == sorted(map(str, range(20)))
            assert sum(line.startswith("started") for line in notes(file)) == 1

    run(main())


def test_calls_of_a_server_run_at_the_same_time_up_to_its_limit_and_others_wait(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "notes"
        entry = peer("tools=silent", f"notes={file}", maxRunning=2)
        limits = ServerLimits(connect_seconds=20, call_seconds=0.3, call_max_seconds=0.5)
        async with bench(tmp_path, {"p": entry}, limits=limits) as b:
            calls = [asyncio.ensure_future(b.call("p.silent")) for _ in range(3)]
            await until(lambda: notes(file).count("called silent") == 2)
            kinds = [(await call).error_kind for call in calls]
            assert kinds.count(ErrorKind.TIMEOUT) == 3 and notes(file).count("called silent") == 3

    run(main())


class Caller:
    """A client behind a call, which is only told things."""

    def __init__(self) -> None:
        self.logged: list[tuple[str, Any, str]] = []

    def can(self, question: Any, params: Any) -> bool:
        return False

    async def ask(self, question: Any, params: Any) -> Any:
        raise AssertionError

    def log(self, level: str, data: Any, logger: str = "") -> None:
        self.logged.append((level, data, logger))


def test_what_a_server_logs_reaches_the_client_that_called_and_not_our_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        caller = Caller()
        async with bench(tmp_path, {"p": peer("tools=logs")}) as b:
            assert (await b.call("p.logs", caller=caller)).ok
            await until(lambda: caller.logged)
        assert caller.logged == [("warning", {"said": "hello"}, "peer")]
        assert "hello" not in caplog.text

    run(main())
