"""The composition root: what it makes and finds, the order of start and stop, and what a failed start leaves."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.config.home_folders import make_home
from app.config.snapshot import load
from app.extend import CallContext, Door, ErrorKind, ToolCall, ToolResult, ToolSpec
from app.services import Services, plugin_hosts
from tests.server import ECHO, write_plugin
from tests.web.asgi import services_in


def test_plugins_come_from_the_home_and_the_program_and_those_of_the_home_win(tmp_path: Path) -> None:
    write_plugin(tmp_path, "Echo", ECHO)
    write_plugin(tmp_path, "SciCalculator", ECHO, displayName="mine")
    specs = services_in(tmp_path).router.specs()
    assert {"Echo", "SciCalculator", "DailyNoteWrite"} <= set(specs)
    assert specs["SciCalculator"].display == "mine"


@pytest.mark.parametrize("linked", [False, True])
def test_a_home_that_is_the_program_itself_finds_each_plugin_once_and_without_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, linked: bool
) -> None:
    program = tmp_path / "program"
    write_plugin(program, "Echo", ECHO)
    home = program
    if linked:
        home = tmp_path / "link"
        home.symlink_to(program, target_is_directory=True)
    monkeypatch.setattr(plugin_hosts, "program_plugins", lambda: program / "Plugin")
    assert list(services_in(home).router.specs()) == ["Echo"]
    assert caplog.records == []


def test_a_plugin_that_cannot_be_read_is_named_in_the_log_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_plugin(tmp_path, "Echo", ECHO)
    broken = write_plugin(tmp_path, "Broken", ECHO)
    (broken / "plugin-manifest.json").write_text("{oops", encoding="utf-8")
    assert "Echo" in services_in(tmp_path).router.specs()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Broken" in caplog.text


def watched(services: Services, seen: list[str], fails: str = "") -> None:
    """Note what is started and stopped; ``fails`` names a step that raises."""

    def noting(name: str, real: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def step(*arguments: object) -> None:
            seen.append(name)
            await real(*arguments)
            if name == fails:
                raise ZeroDivisionError(name)

        return step

    for part in ("upstream", "plugins"):
        owner = getattr(services, part)
        owner.start = noting(f"start {part}", owner.start)
        owner.stop = noting(f"stop {part}", owner.stop)
    services.background.stop = noting("stop background", services.background.stop)  # type: ignore[method-assign]  # watched
    services.running.stop_all = noting("stop running", services.running.stop_all)  # type: ignore[method-assign]  # watched


STOPS = ["stop running", "stop background", "stop plugins", "stop upstream"]


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        ("", ["start upstream", "start plugins", "inside", *STOPS]),
        ("start upstream", ["start upstream", "stop upstream"]),
        ("start plugins", ["start upstream", "start plugins", "stop plugins", "stop upstream"]),
        ("stop background", ["start upstream", "start plugins", "inside", *STOPS]),
        ("inside", ["start upstream", "start plugins", "inside", *STOPS]),
    ],
)
def test_parts_are_stopped_in_reverse_whatever_fails(tmp_path: Path, fails: str, expected: list[str]) -> None:
    seen: list[str] = []

    async def main() -> None:
        services = services_in(tmp_path)
        watched(services, seen, fails)

        async def life() -> None:
            async with services.running_parts():
                assert services.ready
                seen.append("inside")
                if fails == "inside":
                    raise ZeroDivisionError

        if fails:
            with pytest.raises(ZeroDivisionError):
                await life()
        else:
            await life()
        assert not services.ready

    asyncio.run(main())
    assert seen == expected


def test_a_stop_ends_the_process_of_a_call_that_is_running(tmp_path: Path) -> None:
    write_plugin(
        tmp_path,
        "Hang",
        "import json, pathlib, sys, time\n"
        "pathlib.Path(json.loads(sys.stdin.read())['begun']).touch()\n"
        "while True: time.sleep(60)",
    )

    async def main() -> None:
        services = services_in(tmp_path, "ShutdownSeconds=0.1", "PluginStopSeconds=0.1")
        begun = tmp_path / "begun"
        async with services.running_parts():
            call = asyncio.create_task(
                services.router.call(ToolCall("c", "Hang", {"begun": str(begun)}), CallContext("t", Door.COMMAND_LINE))
            )
            while not begun.exists():
                await asyncio.sleep(0.005)
        result = await asyncio.wait_for(call, 10)
        assert not result.ok

    asyncio.run(main())


def test_p83_work_of_every_kind_has_one_grace_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The web server, work in the background and scheduled calls do not wait one after the other."""

    async def main() -> None:
        services = services_in(tmp_path, "ShutdownSeconds=600")
        begun = asyncio.Event()

        async def endless() -> None:
            begun.set()
            await asyncio.Event().wait()

        class Stuck:
            async def start(self) -> None: ...

            async def stop(self) -> None:
                await asyncio.Event().wait()

            def health(self) -> str:
                return ""

        services._lifecycles = (Stuck(),)
        services.stopping._end_seconds = lambda: 0.2
        async with services.running_parts():
            assert services.background.start(endless(), "endless")
            await begun.wait()
            services.stopping.begin(0.1)  # a second signal
            assert services.schedule._limit() == 0  # nothing new is begun that would be cut off

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(main(), 20))
    assert "Stuck.stop has not ended in time" in caplog.text


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("::1", "http://[::1]:7000/plugin-callback"),
        ("::", "http://[::1]:7000/plugin-callback"),
        ("0.0.0.0", "http://127.0.0.1:7000/plugin-callback"),
        ("10.0.0.5", "http://10.0.0.5:7000/plugin-callback"),
    ],
)
def test_a_background_plugin_that_starts_before_the_server_listens_calls_back_to_where_it_will(
    tmp_path: Path, host: str, base: str
) -> None:
    services = services_in(tmp_path, f"HOST={host}", "PORT=7000", "Key=a-key-of-our-own", key="a-key-of-our-own")
    assert services.in_force.callback_base() == base
    services.served_at("http://[::1]:4711")
    assert services.in_force.callback_base() == "http://[::1]:4711/plugin-callback"


def test_prompts_name_the_port_at_which_the_server_listens_where_it_took_a_free_one(tmp_path: Path) -> None:
    services = services_in(tmp_path, "PORT=0")
    services.served_at("http://127.0.0.1:4711")
    prepare = services.turn_parts.preparation.prepare
    body = {"model": "m", "messages": [{"role": "system", "content": "{{Port}}"}]}
    assert asyncio.run(prepare(body, "m", "t")).body["messages"][0]["content"] == "4711"


@pytest.mark.parametrize("owns_home", [True, False])
def test_the_owner_of_a_home_clears_away_what_a_killed_one_left_half_written(tmp_path: Path, owns_home: bool) -> None:
    make_home(tmp_path)
    left = tmp_path / "VCPTimedContacts" / ".t.json.0123456789abcdef.tmp"
    left.touch()
    os.utime(left, (1, 1))

    async def main() -> None:
        async with Services(
            load(tmp_path, {"API_URL": "http://127.0.0.1:9"}), "k", owns_home=owns_home
        ).running_parts():
            pass

    asyncio.run(main())
    assert left.exists() is not owns_home


def test_names_of_turns_and_calls_are_unique_over_restarts(tmp_path: Path) -> None:
    first, second = services_in(tmp_path), services_in(tmp_path)
    ids = [services.new_id("call") for services in (first, second) for _ in range(3)]
    assert len(set(ids)) == 6
    assert all(name.startswith("call-") for name in ids)


def test_parts_that_others_bring_start_and_stop_with_the_server(tmp_path: Path) -> None:
    seen: list[str] = []

    class Part:
        def __init__(self, name: str) -> None:
            self.name = name

        async def start(self) -> None:
            seen.append(f"start {self.name}")

        def health(self) -> str:
            return "it is not well" if self.name == "b" and not well else ""

        async def stop(self) -> None:
            seen.append(f"stop {self.name}")

    async def main() -> None:
        services = Services(services_in(tmp_path).config, "key", lifecycles=(Part("a"), Part("b")))
        async with services.running_parts():
            seen.append("inside")
            assert services.ready
            well.clear()
            assert not services.ready

    well = ["so far"]
    asyncio.run(main())
    assert seen == ["start a", "start b", "inside", "stop b", "stop a"]


@pytest.mark.parametrize("code", [False, True])
def test_guards_of_further_parts_are_asked_after_the_servers_own(tmp_path: Path, code: bool) -> None:
    asked: list[str] = []

    class Refuser:
        async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
            asked.append(call.tool)
            return ToolResult(error_kind=ErrorKind.REFUSED, message="not today")

    config = services_in(tmp_path, *(["VCPToolCode=true"] if code else [])).config
    services = Services(config, "key", guards=(Refuser(),))
    call = ToolCall("c", "SciCalculator", {"expression": "1"})
    result = asyncio.run(services.router.call(call, CallContext("t", Door.STREAM)))
    assert result.error_kind is ErrorKind.REFUSED
    assert asked == ([] if code else ["SciCalculator"])
    assert (result.message == "not today") is not code
