"""Static plugins in a real server, from the first chat to kill -9 (spec 3.4, 5.6, 7.3; P75, P77, P78, S7)."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import StaticRefreshed
from app.plugins.static_values import KeptValue, StaticValues
from app.services import Services
from app.tools.auth_code import AuthCode
from tests.program import LONGEST, started, vcp
from tests.prompt.installation import static_source
from tests.server import ECHO, Running, call_text, run, running, write_plugin
from tests.web.asgi import services_in

AWAKE = "RunStaticPlugins=true"
TICK = """
import os
number = int(open("number").read()) + 1 if os.path.exists("number") else 1
open("number", "w").write(str(number))
print(number)
"""


def static(home: Path, name: str, script: str, **manifest: object) -> Path:
    placeholders = {"systemPromptPlaceholders": [{"placeholder": "{{" + name + "}}"}]}
    return write_plugin(home, name, script, pluginType="static", capabilities=placeholders, **manifest)


async def prompt(server: Running, up: ScriptedUpstream, text: str) -> str:
    """What becomes of a system text on its way to the model."""
    await server.chat({"role": "system", "content": text}, "hi")
    sent: str = up.bodies[-1]["messages"][0]["content"]
    return sent


async def refreshed(server: Running, name: str, count: int = 1) -> None:
    async with asyncio.timeout(15):
        while [e.plugin for e in server.events if isinstance(e, StaticRefreshed)].count(name) < count:
            await asyncio.sleep(0.01)


def test_p78_the_first_chat_does_not_wait_for_a_run_and_later_ones_have_the_value(tmp_path: Path) -> None:
    async def main() -> None:
        folder = static(
            tmp_path,
            "Weather",
            "import os, time\nwhile not os.path.exists('gate'): time.sleep(0.01)\nprint('{{Date}} 晴')",
            displayName="天气",
        )
        async with (
            ScriptedUpstream(lambda _: say("ok")) as up,
            running(tmp_path, up.base_url, config=[AWAKE]) as server,
        ):
            assert await prompt(server, up, "<{{Weather}}>") == "<[天气 a-zheng-zai-jia-zai-zhong... ]>"
            (folder / "gate").touch()
            await refreshed(server, "Weather")
            assert await prompt(server, up, "<{{Weather}}>{{Weather}}") == "<{{Date}} 晴>{{Date}} 晴"
        (folder / "gate").unlink()
        async with (
            ScriptedUpstream(lambda _: say("ok")) as up,
            running(tmp_path, up.base_url, config=[AWAKE]) as server,
        ):
            assert await prompt(server, up, "{{Weather}}") == "{{Date}} 晴"

    run(main())


def test_p75_p77_a_plugin_of_every_second_refreshes_beside_an_endless_one(tmp_path: Path) -> None:
    async def main() -> None:
        static(tmp_path, "Tick", TICK, refreshIntervalCron="* * * * * *")
        static(
            tmp_path,
            "Endless",
            "",
            entryPoint={"type": "command", "command": "sh -c 'echo so far; exec sleep 600'"},
            refreshIntervalCron="* * * * * *",
            communication={"protocol": "stdio", "timeout": 800},
        )
        static(tmp_path, "Odd", "print('odd')", refreshIntervalCron="nonsense")
        async with (
            ScriptedUpstream(lambda _: say("ok")) as up,
            running(tmp_path, up.base_url, config=[AWAKE]) as server,
        ):
            for name, count in (("Tick", 2), ("Endless", 1), ("Odd", 1)):
                await refreshed(server, name, count)
            text = await prompt(server, up, "{{Tick}}|{{Endless}}|{{Odd}}")
            number, endless, odd = text.split("|")
            assert int(number) >= 2
            assert (endless, odd) == ("so far", "odd")

    run(main())


def test_s7_the_shipped_user_auth_makes_the_code_and_until_then_calls_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)

        async def called(server: Running, password: str) -> int:
            text = call_text("Echo", text="hi", tool_password=password).encode()
            headers = {"Content-Type": "text/plain"}
            return (await server.client.post("/v1/human/tool", content=text, headers=headers)).status_code

        config = [AWAKE, "VCPToolCode=true"]
        async with ScriptedUpstream(lambda _: say("ok")) as up, running(tmp_path, up.base_url, config=config) as server:
            assert await called(server, "000000") == 500
            await refreshed(server, "UserAuth")
            code = AuthCode(tmp_path)()
            assert code is not None
            assert await called(server, code) == 200
            assert await called(server, "000000") == 500
            text = await prompt(server, up, "{{USER_AUTH_CODE}}")
            assert text.startswith("管理员验证码已更新")
            assert code not in text
            next_run = next(s.next_run for s in server.services.statics.states() if s.plugin == "UserAuth")
            assert next_run is not None
            assert next_run % 3600 == 0

    run(main())


def test_the_shipped_generator_fills_the_emoji_lists_of_the_home(tmp_path: Path) -> None:
    async def main() -> None:
        pack = tmp_path / "image" / "通用表情包"
        pack.mkdir(parents=True)
        (pack / "a.png").write_bytes(b"x")
        async with (
            ScriptedUpstream(lambda _: say("ok")) as up,
            running(tmp_path, up.base_url, config=[AWAKE]) as server,
        ):
            await refreshed(server, "EmojiListGenerator")
            assert await prompt(server, up, "{{通用表情包}}{{无表情包}}") == "a.png[无表情包列表不可用]"
            (pack / "b.png").write_bytes(b"x")
            await server.services.statics.refresh("EmojiListGenerator")
            assert await prompt(server, up, "{{通用表情包}}") == "a.png|b.png"

    run(main())


def test_diaries_come_from_the_files_of_now_and_their_plugin_is_not_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: say("ok")) as up,
            running(tmp_path, up.base_url, config=[AWAKE]) as server,
        ):
            (listed,) = [one for one in server.services.statics.states() if one.plugin == "DailyNoteGet"]
            assert (listed.keys, listed.served, listed.cron) == (("AllCharacterDiariesData",), True, None)
            (tmp_path / "dailynote" / "小克").mkdir()
            (tmp_path / "dailynote" / "小克" / "1.txt").write_text("{{Date}}", encoding="utf-8")
            assert json.loads(await prompt(server, up, "{{AllCharacterDiariesData}}")) == {"小克": "{{Date}}"}
            await refreshed(server, "UserAuth")
            assert "DailyNoteGet" not in {e.plugin for e in server.events if isinstance(e, StaticRefreshed)}

    run(main())


def test_b16_a_value_from_elsewhere_does_not_take_the_place_of_a_local_one(tmp_path: Path) -> None:
    async def main() -> None:
        static(tmp_path, "Weather", "print('local')")
        remote = static_source(Weather="remote", Other="remote")
        async with (
            ScriptedUpstream(lambda _: say("ok")) as up,
            running(tmp_path, up.base_url, config=[AWAKE], placeholders=[remote]) as server,
        ):
            await refreshed(server, "Weather")
            assert await prompt(server, up, "{{Weather}} {{Other}}") == "local remote"

    run(main())


def test_static_plugins_are_no_tools(tmp_path: Path) -> None:
    static(tmp_path, "Weather", "print('x')")
    specs = services_in(tmp_path).router.specs()
    assert not specs["Weather"].callable
    assert not specs["UserAuth"].callable


def test_a_process_that_does_not_own_the_home_runs_none(tmp_path: Path) -> None:
    static(tmp_path, "Writer", "open('ran', 'w')")

    async def main() -> None:
        services = Services(services_in(tmp_path).config, "key", owns_home=False)
        async with services.running_parts():
            assert all(one.last_run is None and not one.running for one in services.statics.states())

    asyncio.run(main())
    done = vcp("tool", "SciCalculator", "expression=6*7", "--home", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "Plugin" / "Writer" / "ran").exists()
    assert not (tmp_path / "Plugin" / "UserAuth").exists()


@pytest.fixture
def kept(tmp_path: Path) -> StaticValues:
    return StaticValues(tmp_path / ".vcp" / "static_values")


def test_kill_9_in_the_middle_of_a_refresh_leaves_a_whole_value_for_the_next_start(
    tmp_path: Path, kept: StaticValues
) -> None:
    size = 900_000
    folder = static(
        tmp_path,
        "Big",
        TICK + f"print(str(number % 10) * {size})\nopen('printed', 'w').close()",
        refreshIntervalCron="* * * * * *",
    )

    def value() -> KeptValue | None:
        return kept.load(["Big", "UserAuth", "EmojiListGenerator", "DailyNoteGet"]).get("Big")

    def whole(found: KeptValue | None) -> str:
        assert found is not None
        number, digits = found.text.split("\n")
        assert digits == number[-1] * size
        return number

    with started("serve", "--port", "0", cwd=tmp_path) as program:
        wait_for(lambda: value() is not None)
        (folder / "printed").unlink(missing_ok=True)
        wait_for((folder / "printed").exists)
        program.stop(signal.SIGKILL)
        assert "Traceback" not in program.logged
    number = whole(value())

    (folder / "plugin-manifest.json").write_text(
        (folder / "plugin-manifest.json").read_text(encoding="utf-8").replace("python main.py", "sleep 600"),
        encoding="utf-8",
    )
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        question = {
            "model": "m",
            "messages": [{"role": "system", "content": "{{Big}}"}, {"role": "user", "content": "?"}],
        }
        headers = {"Authorization": f"Bearer {program.key}"}
        answer = httpx.post(
            f"{program.base_url}/chat/completions", json=question, headers=headers, timeout=LONGEST, trust_env=False
        )
        assert answer.status_code == 200
        assert program.stop() == 0
    assert whole(value()) == number
    code = tmp_path / "Plugin" / "UserAuth" / "code.bin"
    assert stat.S_IMODE(code.stat().st_mode) == 0o600


def wait_for(true: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    last = time.monotonic() + 30
    while not true():
        assert time.monotonic() < last
        time.sleep(0.01)


def test_the_code_of_an_old_installation_works_on_a_machine_without_node(tmp_path: Path) -> None:  # D37, spec 7.3
    async def main() -> None:
        home, bare = tmp_path / "home", tmp_path / "bare"
        bare.mkdir()
        write_plugin(home, "Echo", ECHO)
        write_plugin(
            home, "UserAuth", "", pluginType="static", entryPoint={"type": "nodejs", "command": "node auth.js"}
        )
        config = [AWAKE, "VCPToolCode=true"]
        async with running(home, "http://127.0.0.1:9", config=config, environ={"PATH": str(bare)}) as server:
            await refreshed(server, "UserAuth")
            code = AuthCode(home)()
            assert code is not None
            text = {"Content-Type": "text/plain"}
            for password, status in ((code, 200), ("000000", 500)):
                block = call_text("Echo", tool_password=password).encode()
                answer = await server.client.post("/v1/human/tool", content=block, headers=text)
                assert answer.status_code == status, answer.text

    run(main())
