"""In-process plugins are loaded, isolated from each other, swapped at a reload, stopped (spec 5.3, 5.7, 5.11; B28)."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from pathlib import Path

import httpx
import pytest

from app.extend import CallContext, Door, ErrorKind, Reloaded, ToolCall
from app.plugins.in_process_modules import PACKAGE_PREFIX
from app.services import Services
from tests.plugins.modules import alone, call, reload_plugins, serving, write_module
from tests.program import started
from tests.waiting import until
from tests.web.asgi import services_in

__all__ = ["alone"]

ECHO = """
class Plugin:
    async def call(self, call, context):
        return {"version": 1, "arguments": dict(call.arguments)}

def create(context):
    return Plugin()
"""

NOTES = """
from pathlib import Path
NOTE = Path({note!r})

def note(word):
    with NOTE.open("a", encoding="utf-8") as file:
        file.write(word + "\\n")

class Plugin:
    def start(self):
        note("start {version}")
    def stop(self):
        note("stop {version}")
    def call(self, call, context):
        return "{version}"

def create(context):
    note("create {version}")
    return Plugin()
"""


def notes(home: Path) -> list[str]:
    path = home / "notes"
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def write_noting(home: Path, version: str, name: str = "Noting") -> None:
    write_module(home, name, NOTES.format(note=str(home / "notes"), version=version), version=version)


def packages() -> set[str]:
    return {name for name in sys.modules if name.startswith(PACKAGE_PREFIX)}


def test_a_hybrid_plugin_is_a_tool(alone: Path) -> None:
    write_module(alone, "Echo", ECHO)

    async def main() -> None:
        async with serving(alone) as services:
            assert services.router.specs()["Echo"].callable
            result = await call(services, "Echo", {"text": "你好"})
            assert result.ok
            assert result.structured == {"version": 1, "arguments": {"text": "你好"}}

    asyncio.run(main())


@pytest.mark.parametrize("method", ["def", "async def"])
def test_every_method_may_be_plain_or_async_and_runs_once_in_its_order(alone: Path, method: str) -> None:
    source = NOTES.format(note=str(alone / "notes"), version="1").replace("    def ", f"    {method} ")
    write_module(alone, "Noting", source)

    async def main() -> None:
        async with serving(alone) as services:
            assert (await call(services, "Noting")).structured == "1"

    asyncio.run(main())
    assert notes(alone) == ["create 1", "start 1", "stop 1"]


def test_create_may_be_async_and_methods_may_be_missing(alone: Path) -> None:
    write_module(
        alone, "Only", "async def create(context):\n    class P:\n        stop = lambda self: None\n    return P()"
    )

    async def main() -> None:
        async with serving(alone) as services:
            (state,) = services.in_process.states()
            assert (state.serving, state.problem) == (True, "")
            result = await call(services, "Only")
            assert result.error_kind is ErrorKind.EXECUTION
            assert "offers no tool calls" in result.message

    asyncio.run(main())


def test_plugins_with_files_of_the_same_name_do_not_meet(alone: Path) -> None:
    source = "from . import texts\nfrom .parts.deep import WORD\n" + ECHO.replace(
        '"version": 1', '"said": texts.SAID + WORD'
    )
    for name in ("A", "B"):
        files = {"texts.py": f"SAID = 'text of {name}'", "parts/deep.py": f"WORD = ' deep {name}'"}
        write_module(alone, name, source, files=files)

    async def main() -> None:
        async with serving(alone) as services:
            for name in ("A", "B"):
                result = await call(services, name)
                assert result.structured["said"] == f"text of {name} deep {name}"
            assert "texts" not in sys.modules

    asyncio.run(main())


def test_nothing_of_a_plugin_is_left_in_the_interpreter_after_the_end(alone: Path) -> None:
    before = packages(), list(sys.meta_path)
    write_module(alone, "Echo", "from . import texts\n" + ECHO, files={"texts.py": ""})
    write_module(alone, "Broken", "from . import texts\nraise ValueError('no')", files={"texts.py": ""})

    async def main() -> None:
        async with serving(alone):
            assert len(packages() - before[0]) == 3

    asyncio.run(main())
    assert (packages(), list(sys.meta_path)) == before
    assert not list(alone.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("source", "manifest", "said"),
    [
        ("def create(context:\n", {}, "SyntaxError"),
        ("raise ValueError('不行')", {}, "ValueError: 不行 (plugin.py:1 in <module>)"),
        ("import texts", {}, "from . import texts"),
        ("import no_such_library", {}, "no_such_library"),
        ("x = 1", {}, "no function create(context)"),
        ("create = 5", {}, "no function create(context)"),
        ("def create(context): raise SystemExit(3)", {}, "asked for the end of the program"),
        ("async def create(context): raise SystemExit(3)", {}, "asked for the end of the program"),
        ("def create(context): return None", {}, "none of the methods"),
        (
            "def create(context):\n    class P:\n        def start(self): raise OSError('x')\n    return P()",
            {},
            "OSError: x",
        ),
        (ECHO, {"entryPoint": {"type": "python", "script": "../Other/plugin.py"}}, "leaves the folder"),
        (ECHO, {"entryPoint": {"type": "python", "script": "gone.py"}}, "no Python file"),
        (ECHO, {"entryPoint": {"type": "python", "script": "a\0b.py"}}, "missing"),
        (ECHO, {"entryPoint": {"type": "python"}}, "missing"),
        (ECHO, {"stage": "sometimes"}, "stage must be one of before_variables"),
        (ECHO, {"stage": ["after"]}, "stage must be one of"),
    ],
)
def test_one_that_cannot_be_loaded_says_why_and_stops_nobody_else(
    alone: Path, caplog: pytest.LogCaptureFixture, source: str, manifest: dict[str, object], said: str
) -> None:
    write_module(alone, "Broken", source, files={"texts.py": ""}, **manifest)
    write_module(alone, "Fine", ECHO)

    async def main() -> None:
        async with serving(alone) as services:
            assert (await call(services, "Fine")).ok
            result = await call(services, "Broken")
            assert result.error_kind is ErrorKind.EXECUTION
            assert "is not loaded" in result.message
            assert said in result.message
            assert said in services.in_process.problems()[0]
            assert services.ready

    asyncio.run(main())
    assert "plugin Broken could not be loaded" in caplog.text


def test_a_symbolic_link_does_not_lead_a_script_out_of_its_folder(alone: Path) -> None:
    folder = write_module(alone, "Link", ECHO)
    outside = alone / "outside.py"
    outside.write_text(ECHO, encoding="utf-8")
    (folder / "plugin.py").unlink()
    (folder / "plugin.py").symlink_to(outside)

    async def main() -> None:
        async with serving(alone) as services:
            assert "leaves the folder" in services.in_process.problems()[0]

    asyncio.run(main())


@pytest.mark.parametrize("where", ["import time\ntime.sleep(60)", "import time\ndef create(context): time.sleep(60)"])
def test_a_plugin_that_never_finishes_loading_holds_up_nobody_for_long(
    alone: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: asyncio.run(asyncio.sleep(0.3)))  # so that its thread ends too
    write_module(alone, "Slow", where, timeout=50)
    write_module(alone, "Fine", ECHO)

    async def main() -> None:
        async with serving(alone) as services:
            assert (await call(services, "Fine")).ok
            (problem,) = services.in_process.problems()
            assert "longer than 0.05 s" in problem
            await until(lambda: not services.in_process.states()[1].hanging)

    asyncio.run(main())
    assert "nobody waits for it any more; it stands at" in caplog.text


def test_a_reload_leaves_alone_what_did_not_change(alone: Path) -> None:
    write_noting(alone, "1")
    write_module(alone, "Other", ECHO)

    async def main() -> None:
        async with serving(alone) as services:
            write_module(alone, "Other", ECHO.replace('"version": 1', '"version": 2'), version="2")
            await reload_plugins(services)
            assert (await call(services, "Other")).structured["version"] == 2
            assert notes(alone) == ["create 1", "start 1"]

    asyncio.run(main())


def test_a_reload_starts_the_new_version_before_it_stops_the_old(alone: Path) -> None:
    write_noting(alone, "1")

    async def main() -> None:
        async with serving(alone) as services:
            write_noting(alone, "2")
            await reload_plugins(services)
            assert (await call(services, "Noting")).structured == "2"
            await until(lambda: len(notes(alone)) == 5)
            assert notes(alone) == ["create 1", "start 1", "create 2", "start 2", "stop 1"]

    asyncio.run(main())
    assert notes(alone)[-1] == "stop 2"


def test_p68_a_new_version_that_cannot_be_loaded_leaves_the_old_one_serving(
    alone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_noting(alone, "1")

    async def main() -> None:
        async with serving(alone) as services:
            write_module(alone, "Noting", "def create(", version="2", displayName="new")
            await reload_plugins(services)
            assert (await call(services, "Noting")).structured == "1"
            assert services.router.specs()["Noting"].display == "Noting"
            assert "SyntaxError" in services.in_process.problems()[0]
            assert "the version before it goes on" in caplog.text
            write_noting(alone, "3")
            await reload_plugins(services)
            assert (await call(services, "Noting")).structured == "3"
            assert services.in_process.problems() == ()

    asyncio.run(main())


def test_a_removed_plugin_is_stopped_and_gone(alone: Path) -> None:
    write_noting(alone, "1")

    async def main() -> None:
        async with serving(alone) as services:
            manifest = alone / "Plugin" / "Noting" / "plugin-manifest.json"
            manifest.rename(manifest.with_name("plugin-manifest.json.block"))
            await reload_plugins(services)
            assert (await call(services, "Noting")).error_kind is ErrorKind.UNKNOWN_TOOL
            await until(lambda: notes(alone)[-1:] == ["stop 1"])

    asyncio.run(main())
    assert notes(alone).count("stop 1") == 1


def test_calls_that_run_at_a_reload_end_with_what_they_began_with(alone: Path) -> None:
    waiting = """
    import asyncio
    from pathlib import Path
    class Plugin:
        stopped = False
        async def call(self, call, context):
            Path(call.arguments["begun"]).touch()
            while not Path(call.arguments["go"]).exists():
                await asyncio.sleep(0.005)
            return {"stopped": self.stopped}
        def stop(self):
            self.stopped = True
    def create(context):
        return Plugin()
    """
    write_module(alone, "Waiting", waiting)
    begun, go = alone / "begun", alone / "go"

    async def main() -> None:
        async with serving(alone) as services:
            running = asyncio.create_task(call(services, "Waiting", {"begun": str(begun), "go": str(go)}))
            await until(begun.exists)
            write_module(alone, "Waiting", ECHO, version="2")
            await reload_plugins(services)
            assert (await call(services, "Waiting")).structured["version"] == 1
            go.touch()
            assert (await running).structured == {"stopped": False}

    asyncio.run(main())


def test_a_setting_of_the_plugin_that_changes_loads_it_anew(alone: Path) -> None:
    reading = """
    def create(context):
        class Plugin:
            def call(self, call, given):
                return {"city": context.config.get("City"), "seen": context.environ.get("Other")}
        return Plugin()
    """
    write_module(alone, "Reading", reading, configSchema={"City": "string"})

    async def main() -> None:
        async with serving(alone, "City=上海", "Other=1") as services:
            assert (await call(services, "Reading")).structured == {"city": "上海", "seen": "1"}
            services.apply(services_in(alone, "City=北京", "Other=2").config)
            slot = services.in_process._slots["Reading"]
            await until(lambda: slot.loaded is not None and slot.loaded.version.settings[0][1] == "北京")
            assert (await call(services, "Reading")).structured == {"city": "北京", "seen": "2"}
            loaded = services.in_process._slots["Reading"].loaded
            services.apply(services_in(alone, "City=北京", "Other=3").config)
            assert (await call(services, "Reading")).structured == {"city": "北京", "seen": "3"}
            assert services.in_process._slots["Reading"].loaded is loaded

    asyncio.run(main())


def test_d37_a_module_for_node_is_served_by_the_plugin_of_that_name_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "program"
    monkeypatch.setattr("app.services.plugin_hosts.program_plugins", lambda: program / "Plugin")
    reading = "def create(c):\n    class P:\n        call = lambda self, call, x: dict(c.config)\n    return P()"
    write_module(program, "Port", reading, configSchema={"City": "string"})
    home = tmp_path / "home"
    node = {"entryPoint": {"type": "nodejs", "script": "Port.js"}}
    folder = write_module(home, "Port", "", **node)
    (folder / "config.env").write_text("City=上海\n", encoding="utf-8")
    write_module(home, "Unported", "", **node)

    async def main() -> None:
        async with serving(home) as services:
            assert (await call(services, "Port")).structured == {"City": "上海", "DebugMode": "false"}
            assert "not run here" in services.router.specs()["Unported"].labels
            unported = await call(services, "Unported")
            assert "is not run here" in unported.message
            assert [state.name for state in services.in_process.states()] == ["Port"]

    asyncio.run(main())
    complaints = [record.name for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert complaints == ["app.turns"]  # of the call that was made on purpose


def test_d88_a_process_that_only_runs_tools_loads_the_plugin_that_is_called_and_no_other(alone: Path) -> None:
    write_noting(alone, "1")
    write_noting(alone, "2", name="Another")

    async def main() -> None:
        services = Services(services_in(alone).config, "key", owns_home=False)
        async with services.running_parts():
            assert notes(alone) == []
            result = await services.router.call(ToolCall("c", "Noting", {}), CallContext("t", Door.COMMAND_LINE))
            assert result.structured == "1"

    asyncio.run(main())
    assert notes(alone) == ["create 1", "start 1", "stop 1"]


@pytest.mark.parametrize("stop", ["await asyncio.sleep(60)", "raise ValueError('x')", "await stubborn()"])
def test_a_plugin_that_does_not_stop_well_holds_nothing_up(
    alone: Path, caplog: pytest.LogCaptureFixture, stop: str
) -> None:
    source = f"""
    import asyncio
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    class Plugin:
        async def stop(self):
            {stop}
    def create(context):
        return Plugin()
    """
    write_module(alone, "Bad", source)
    write_noting(alone, "1")

    async def main() -> None:
        async with serving(alone, "PluginStopSeconds=0.05"):
            pass
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    asyncio.run(main())
    assert notes(alone)[-1] == "stop 1"
    assert "plugin Bad: stop" in caplog.text


def test_the_server_serves_when_a_plugin_takes_long_to_start_and_takes_it_in_later(
    alone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    go = alone / "go"
    start = (
        "    async def start(self):\n        import asyncio, pathlib\n"
        f"        while not pathlib.Path({str(go)!r}).exists():\n            await asyncio.sleep(0.005)\n"
    )
    source = ECHO.replace("    async def call", f"{start}    async def call")
    write_module(alone, "Late", source)

    async def main() -> None:
        services = services_in(alone)
        services.in_process._start_seconds = 0.02
        async with services.running_parts():
            assert not (await call(services, "Late")).ok
            go.touch()
            await until(lambda: services.in_process.states()[0].serving)
            assert (await call(services, "Late")).ok

    asyncio.run(main())
    assert "still being loaded come in later: Late" in caplog.text


def test_a_reload_does_not_wait_for_ever_for_a_plugin_that_hangs(alone: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_noting(alone, "1")
    write_module(alone, "Other", ECHO)

    async def main() -> None:
        services = services_in(alone)
        told: list[Reloaded] = []
        services.events.listen(told.append, Reloaded)  # type: ignore[arg-type]  # only of this kind
        async with services.running_parts():
            services.in_process._start_seconds = 0.02
            hanging = "import asyncio\nasync def create(context): await asyncio.sleep(60)"
            write_module(alone, "Noting", hanging, version="2", timeout=150)
            write_module(alone, "Other", ECHO.replace('"version": 1', '"version": 2'), version="2")
            await reload_plugins(services)
            assert (await call(services, "Noting")).structured == "1"
            await until(lambda: told)
            assert (await call(services, "Other")).structured["version"] == 2
            assert (await call(services, "Noting")).structured == "1"
            assert told[0].problems[0].startswith("Noting: ")

    asyncio.run(main())
    assert "still being loaded come in later: Noting" in caplog.text


def test_tasks_that_a_plugin_leaves_end_with_it(alone: Path) -> None:
    source = """
    import asyncio
    class Plugin:
        async def start(self):
            self.tasks = [asyncio.create_task(self.work()) for _ in range(3)]
        async def work(self):
            await asyncio.sleep(3600)
        async def call(self, call, context):
            return 1
    def create(context):
        return Plugin()
    """
    write_module(alone, "X", source)

    def working() -> int:
        return len([task for task in asyncio.all_tasks() if "Plugin.work" in repr(task.get_coro())])

    async def main() -> None:
        async with serving(alone) as services:
            assert working() == 3
            write_module(alone, "X", ECHO, version="2")
            await reload_plugins(services)
            await until(lambda: not working())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"\xff\xfe\x00", "null bytes"),
        (b"x = '\x00'", "null bytes"),
        (b"#" * (5 * 1024 * 1024), "larger than 4194304 bytes"),
        (b"def create(context):\n    def f(): f()\n    f()", "RecursionError"),
    ],
    ids=["no text", "NUL", "huge", "endless"],
)
def test_hostile_source_is_told_and_costs_nothing_else(alone: Path, source: bytes, said: str) -> None:
    folder = write_module(alone, "Bad", "")
    (folder / "plugin.py").write_bytes(source)
    write_module(alone, "Fine", ECHO)

    async def main() -> None:
        async with serving(alone) as services:
            assert said in services.in_process.problems()[0]
            assert (await call(services, "Fine")).ok

    asyncio.run(main())


def test_a_full_disk_costs_the_plugins_that_have_no_folder_yet(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_module(alone, "X", ECHO)
    real = os.mkdir

    def full(path: str | Path, mode: int = 0o777) -> None:
        if str(Path(".vcp", "plugins")) in str(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", full)

    async def main() -> None:
        async with serving(alone) as services:
            assert "No space left on device" in services.in_process.problems()[0]
            assert services.ready

    asyncio.run(main())


def test_p43_p83_a_server_ends_in_time_although_a_thread_of_a_plugin_hangs(tmp_path: Path) -> None:
    source = """
    import asyncio, threading
    class Plugin:
        def process(self, body, context):
            threading.Event().wait()
        async def start(self):
            self.task = asyncio.create_task(self.stubborn())
        async def stop(self):
            await self.stubborn()
        async def stubborn(self):
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass
    def create(context):
        return Plugin()
    """
    write_module(tmp_path, "Hang", source, timeout=500, pluginType="messagePreprocessor")
    quick = {"ShutdownSeconds": "0.2", "PluginStopSeconds": "0.1"}
    with started("serve", "--port", "0", cwd=tmp_path, environ=quick) as program:
        headers = {"Authorization": f"Bearer {program.key}"}
        body = {"model": "vcp-demo", "messages": [{"role": "user", "content": "What is 12*7?"}]}
        with httpx.Client(base_url=program.base_url, headers=headers, timeout=30, trust_env=False) as client:
            assert "84" in client.post("/chat/completions", json=body).text
        assert program.stop() == 0
        assert "goes on in its thread" in program.logged
        assert "stop() does not end although it was cancelled" in program.logged
        assert "its task Task" in program.logged
