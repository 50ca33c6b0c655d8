"""A running server whose files are edited: the next request sees it, one that runs keeps what it began with."""

from __future__ import annotations

import asyncio
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.config.home_folders import make_home
from app.config.snapshot import Config, load
from app.demo.script import Hold, Reply, Send, say
from app.demo.scripted import ScriptedUpstream
from app.extend import Event, Reloaded
from app.services import Services
from app.upstream.targets import SingleUpstream
from tests.reload.files import QUICK, add_plugin, save
from tests.server import ECHO, KEY, Running, call_text, run, running, write_plugin
from tests.waiting import until

OFFER = "{{VarX}} {{VCPEcho}}"


def base(upstream: str) -> tuple[str, ...]:
    return (f"API_URL={upstream}", "API_Key=upstream-key", f"Key={KEY}", "ApiRetryDelay=1", "ShutdownSeconds=2")


def reloads(events: list[Event]) -> list[Reloaded]:
    return [event for event in events if isinstance(event, Reloaded)]


async def reloaded(server: Running, home: Path, *lines: str) -> None:
    """Save config.env and wait until it is in force."""
    known = len(reloads(server.events))
    save(home / "config.env", *lines)
    await until(lambda: len(reloads(server.events)) > known)


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def sent(up: ScriptedUpstream, number: int) -> Any:
    """What the upstream got as the system message of its request (from 0)."""
    return up.bodies[number]["messages"][0]["content"]


def test_edited_settings_and_plugins_are_in_the_next_chat(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO, description="old words")
        async with (
            ScriptedUpstream([say("1"), say("2"), say("3")]) as up,
            running(tmp_path, up.base_url, config=["VarX=one"], pace=QUICK) as server,
        ):
            await server.chat(system(OFFER), "x")
            await reloaded(server, tmp_path, *base(up.base_url), "VarX=two")
            await server.chat(system(OFFER), "x")
            known = len(reloads(server.events))
            path = tmp_path / "Plugin" / "Echo" / "plugin-manifest.json"
            commands = [{"commandIdentifier": "say", "description": "new words"}]
            text = path.read_text(encoding="utf-8")
            save(path, json.dumps({**json.loads(text), "capabilities": {"invocationCommands": commands}}))
            await until(lambda: len(reloads(server.events)) > known)
            await server.chat(system(OFFER), "x")
            assert sent(up, 0).startswith("one ")
            assert sent(up, 1).startswith("two ")
            assert "new words" not in sent(up, 1)
            assert "new words" in sent(up, 2)

    run(main())


def held_call() -> Reply:
    """A call that the model has not finished writing."""
    whole = b"".join(step.data for step in say(call_text("Echo", text="hi")).streamed().steps if isinstance(step, Send))
    half = len(whole) // 2
    return Reply((Send(whole[:half]), Hold(), Send(whole[half:])))


def test_a_turn_that_is_held_open_across_a_reload_keeps_what_it_began_with(tmp_path: Path) -> None:
    """Upstream, prompts, format and zone of results are those of its beginning; the next turn has the new ones."""

    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        answers = [say(call_text("Echo", text="hi")), say("end")]
        async with (
            ScriptedUpstream([held_call(), say("end")]) as old,
            ScriptedUpstream(answers) as new,
            running(tmp_path, old.base_url, config=["VarX=one", "DEFAULT_TIMEZONE=UTC"], pace=QUICK) as server,
        ):
            asking = asyncio.create_task(server.stream(system("{{VarX}}"), "x"))
            await old.held()
            changes = ("VarX=two", "DEFAULT_TIMEZONE=Asia/Tokyo", "compat_profile=head", "MaxVCPLoopStream=1")
            await reloaded(server, tmp_path, *base(new.base_url), *changes)
            old.release()
            assert (await asking).text.endswith("end")
            assert (await server.stream(system("{{VarX}}"), "x")).text.endswith("end")
            assert [sent(old, number) for number in range(2)] == ["one", "one"]
            assert [sent(new, number) for number in range(2)] == ["two", "two"]
            before, after = (json.dumps(up.bodies[1]["messages"][-1], ensure_ascii=False) for up in (old, new))
            assert "+09:00" not in before
            assert "+09:00" in after

    run(main())


WAITS = """
import json, pathlib, sys, time
arguments = json.loads(sys.stdin.read())
pathlib.Path(arguments["begun"]).touch()
while not pathlib.Path(arguments["go"]).exists():
    time.sleep(0.01)
print(json.dumps({"status": "success", "result": "done after all"}))
"""


def test_a_running_call_of_a_plugin_that_is_removed_ends_normally_and_the_next_turn_has_no_such_tool(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        home = tmp_path / "home"
        folder = write_plugin(home, "Slow", WAITS)
        begun, go = tmp_path / "begun", tmp_path / "go"
        call = call_text("Slow", begun=str(begun), go=str(go))
        async with (
            ScriptedUpstream([say(call), say("end"), say(call), say("end")]) as up,
            running(home, up.base_url, pace=QUICK) as server,
        ):
            asking = asyncio.create_task(server.stream(system("{{VCPAllTools}}"), "x"))
            await until(begun.exists)
            manifest = folder / "plugin-manifest.json"
            manifest.rename(manifest.with_name("plugin-manifest.json.block"))
            await until(lambda: bool(reloads(server.events)))
            go.touch()
            await asking
            assert "done after all" in json.dumps(up.bodies[1])
            await server.stream(system("{{VCPAllTools}}"), "x")
            assert "Slow" not in sent(up, 2)
            assert "done after all" not in json.dumps(up.bodies[3])

    run(main())


def test_edited_agents_and_variable_files_are_in_the_next_chat_even_with_equal_size_and_time(tmp_path: Path) -> None:
    """P62. These files are read as they are at each request; no reload is needed."""

    async def main() -> None:
        agent, text = tmp_path / "Agent" / "Nova.txt", tmp_path / "TVStxt" / "x.txt"
        save(agent, "agent one")
        save(text, "text one")
        save(tmp_path / "agent_map.json", '{"Nova": "Nova.txt"}')
        for path in (agent, text):
            os.utime(path, (1, 1))
        async with (
            ScriptedUpstream([say(str(number)) for number in range(6)]) as up,
            running(tmp_path, up.base_url, config=["VarX=x.txt"]) as server,
        ):

            async def seen() -> str:
                await server.chat(system("{{Nova}}|{{VarX}}|{{New}}"), "x")
                return str(sent(up, len(up.bodies) - 1)).replace("\n", "")

            assert await seen() == "agent one|text one|{{New}}"
            for path, words in ((agent, "agent two"), (text, "text two")):
                path.write_text(f"{words}\n", encoding="utf-8")
                os.utime(path, (1, 1))
            assert await seen() == "agent two|text two|{{New}}"
            save(tmp_path / "Agent" / "New.txt", "fresh")
            save(tmp_path / "agent_map.json", '{"Nova": "Nova.txt", "New": "New.txt"}')
            assert await seen() == "agent two|text two|fresh"
            (tmp_path / "agent_map.json").write_text('{"Nova": "Nova', encoding="utf-8")
            assert await seen() == "agent two|text two|fresh"
            save(tmp_path / "agent_map.json", '{"New": "New.txt"}')
            text.unlink()
            answer = await seen()
            assert answer.startswith("{{Nova}}|")
            assert "text two" not in answer

    run(main())


def test_a_broken_agent_map_is_told_when_it_is_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url, pace=QUICK) as server:
            save(tmp_path / "agent_map.json", '{"Nova": 7}')
            await until(lambda: bool(reloads(server.events)))
            assert reloads(server.events)[0].parts == ("agent_map.json",)

    run(main())
    assert "agent 'Nova' is not a file path" in caplog.text


def test_a_server_that_answers_with_the_demo_goes_over_to_the_api_that_is_configured(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("")] * 2) as demo, ScriptedUpstream([say("")]) as real:
            make_home(tmp_path)
            services = Services(
                load(tmp_path, {}),
                KEY,
                resolver=SingleUpstream(demo.base_url, "demo"),
                read_config=partial(load, tmp_path, {}),
            )
            async with services.running_parts():

                async def asked() -> tuple[int, int]:
                    reply = await services.upstream.models()
                    await reply.close()
                    return len(demo.requests), len(real.requests)

                assert await asked() == (1, 0)
                save(tmp_path / "config.env", f"API_URL={real.base_url}")
                await services.reload()
                assert await asked() == (1, 1)
                save(tmp_path / "config.env", "VarX=1")
                await services.reload()
                assert await asked() == (2, 1)

    run(main())


def test_an_api_that_is_taken_away_without_a_demo_to_answer_stays(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("1")]) as up, running(tmp_path, up.base_url, pace=QUICK) as server:
            await reloaded(server, tmp_path, *base(up.base_url)[1:], "VarX=1")
            assert any("API_URL" in problem for problem in reloads(server.events)[-1].problems)
            assert (await server.chat("x")).status_code == 200

    run(main())


# ---------------------------------------------------------------- Settings of the web layer


async def status(server: Running, method: str = "GET", path: str = "/v1/none", **request: Any) -> httpx.Response:
    return await server.client.request(method, path, **request)


def test_what_the_gate_and_the_routes_go_by_is_live(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "ip_blacklist.json").write_text('["9.9.9.9"]', encoding="utf-8")
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url, pace=QUICK) as server:

            async def from_far(**headers: str) -> int:
                return (await status(server, headers={**headers, "X-Forwarded-For": "9.9.9.9"})).status_code

            async def allowed(origin: str) -> str | None:
                return (await status(server, headers={"Origin": origin})).headers.get("access-control-allow-origin")

            async def body_of(path: str, size: int) -> int:
                headers = {"Content-Type": "text/plain"}
                return (await status(server, "POST", path, content=b"x" * size, headers=headers)).status_code

            big = 1024 * 1024 + 1
            assert await from_far() == 404
            assert await allowed("https://a.example") == "*"
            assert await body_of("/v1/human/tool", big) == 400
            assert await body_of("/v1/chat/completions", big) == 400
            changed = (
                "TrustedProxies=127.0.0.1",
                "CorsOrigins=https://a.example",
                "ToolBodyLimitMB=1",
                "ChatBodyLimitMB=1",
            )
            await reloaded(server, tmp_path, *base(up.base_url), *changed)
            assert await from_far() == 403
            assert await allowed("https://a.example") == "https://a.example"
            assert await allowed("https://b.example") is None
            assert await body_of("/v1/human/tool", big) == 413
            assert await body_of("/v1/chat/completions", big) == 413
            await reloaded(server, tmp_path, *base(up.base_url), *changed, "IpBlacklist=false")
            assert await from_far() == 404
            await reloaded(server, tmp_path, *base(up.base_url), *changed, "IpBlacklist=true")
            assert await from_far() == 403

    run(main())


def test_the_number_of_running_turns_is_live(tmp_path: Path) -> None:
    async def main() -> None:
        script = [Reply((Hold(), Send(b"data: [DONE]\n\n"))), say("second")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, pace=QUICK) as server:
            asking = asyncio.create_task(server.chat("x", stream=True))
            await up.held()
            await reloaded(server, tmp_path, *base(up.base_url), "MaxRunningTurns=1")
            assert (await server.chat("x")).status_code == 503
            await reloaded(server, tmp_path, *base(up.base_url), "MaxRunningTurns=2")
            assert (await server.chat("x")).status_code == 200
            up.release()
            await asking

    run(main())


def test_retries_and_limits_of_the_upstream_are_live(tmp_path: Path) -> None:
    async def main() -> None:
        broken = Reply((Send(b"{}"),), status=503)
        hangs = Reply((Hold("never"), Send(b"{}")))
        async with (
            ScriptedUpstream([broken, broken, broken, hangs]) as up,
            running(tmp_path, up.base_url, config=["ApiRetries=2"], pace=QUICK) as server,
        ):
            assert (await server.chat("x")).status_code == 503
            assert len(up.bodies) == 2
            changed = ("ApiRetries=1", "UpstreamFirstByteTimeout=0.2", "API_Key=other-key")
            await reloaded(server, tmp_path, *base(up.base_url), *changed)
            assert (await server.chat("x")).status_code == 503
            assert len(up.bodies) == 3
            assert up.requests[2].headers["authorization"] == "Bearer other-key"
            assert "UpstreamFirstByteTimeout" in (await server.chat("x")).text

    run(main())


def test_limits_and_passwords_of_tools_are_live(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Flood", "print('x' * 3_000_000)")
        async with ScriptedUpstream([]) as up, running(tmp_path, up.base_url, pace=QUICK) as server:

            async def call() -> str:
                headers = {"Content-Type": "text/plain"}
                content = call_text("Flood").encode()
                return (await server.client.post("/v1/human/tool", content=content, headers=headers)).text

            assert "1048576" not in await call()
            await reloaded(server, tmp_path, *base(up.base_url), "PluginOutputLimitMB=1", "PluginQueueLimit=7")
            assert "1048576" in await call()
            await reloaded(server, tmp_path, *base(up.base_url), "VCPToolCode=true")
            answer = await call()
            assert "1048576" not in answer
            assert "tool_password" in answer or "验证码" in answer

    run(main())


def test_without_live_reload_nothing_is_watched_and_a_reload_can_still_be_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([]) as up,
            running(tmp_path, up.base_url, config=["LiveReload=false"], pace=QUICK) as server,
        ):
            assert not [task for task in asyncio.all_tasks() if task.get_name() == "watcher"]
            add_plugin(tmp_path, "Echo")
            assert (await server.services.reload()).parts == ("plugins: added Echo",)

    run(main())


def test_a_server_whose_watcher_cannot_go_on_says_that_it_is_unwell(tmp_path: Path) -> None:
    def faulty() -> Config:
        raise ZeroDivisionError("faulty")

    async def main() -> None:
        make_home(tmp_path)
        save(tmp_path / "config.env", "API_URL=http://127.0.0.1:9")
        services = Services(load(tmp_path, {}), KEY, read_config=faulty, pace=QUICK)
        async with services.running_parts():
            await until(lambda: services.trouble() == "live reload has ended: faulty")
            assert not services.ready

    run(main())
