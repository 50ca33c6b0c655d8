"""What the server gives to an in-process plugin: each member of its context is real."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import Answer, Received, Reply, json_reply, say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallContext, CallProgress, CallStarted, Door, ErrorKind, Informed, Pushed, ToolCall, TurnFinished
from app.plugins.in_process_context import STORES, store_dir
from tests.plugins.modules import alone, call, serving, write_module
from tests.server import ECHO, call_text, chat_body, run, running, write_plugin
from tests.waiting import until
from tests.web.asgi import services_in

__all__ = ["alone"]


def plugin(body: str, method: str = "async def") -> str:
    """A plugin whose ``call`` may use its ``context`` (the plugin's) and ``within`` (the call's)."""
    lines = "\n            ".join(body.split("\n"))
    return (
        "import asyncio, os\ndef create(context):\n    class P:\n"
        f"        {method} call(self, call, within):\n            {lines}\n    return P()\n"
    )


def answer(home: Path, body: str, method: str = "async def", *config: str, **manifest: Any) -> Any:
    write_module(home, "X", plugin(body, method), **manifest)

    async def main() -> Any:
        async with serving(home, *config) as services:
            result = await call(services, "X")
            assert result.ok, result.message
            return result.structured

    return asyncio.run(main())


def test_its_settings_are_resolved_like_those_of_a_process(alone: Path) -> None:
    folder = write_module(alone, "X", "")
    (folder / "config.env").write_text('City="上海 # x"\r\n', encoding="utf-8")
    schema = {"City": "string", "Most": {"type": "integer", "default": 5}, "Unset": "string"}
    seen = answer(alone, "return dict(context.config)", "async def", "City=北京", "Most=", configSchema=schema)
    assert seen == {"City": "上海 # x", "Most": "5", "DebugMode": "false"}


def test_names_folders_clock_zone_and_the_environment_of_now(alone: Path) -> None:
    body = (
        "return [context.name, str(context.folder), str(context.home), str(context.zone), context.clock() > 1e9, "
        "context.environ['Anything'], context.environ['PORT'], 'Anything' in context.environ, "
        "len(context.environ) > 2, repr(context.environ), context.log.name]"
    )
    seen = answer(alone, body, "async def", "Anything=sec ret", "PORT=7001", "DEFAULT_TIMEZONE=Europe/Berlin")
    folder = str((alone / "Plugin" / "X").resolve())
    assert seen[:9] == ["X", folder, str(alone), "Europe/Berlin", True, "sec ret", "7001", True, True]
    assert "sec ret" not in seen[9]
    assert seen[10] == "plugin.X"


def test_a_call_goes_through_the_router_and_carries_on_what_it_stands_in(alone: Path) -> None:
    write_plugin(alone, "Echo", ECHO)
    body = "r = await context.call_tool('Echo', {'text': 'hi', 'maid': 'Nova'})\nreturn [r.ok, r.structured]"
    write_module(alone, "X", plugin(body))

    async def main() -> None:
        async with serving(alone) as services:
            started: list[CallStarted] = []
            services.events.listen(started.append, CallStarted)  # type: ignore[arg-type]  # only of this kind
            result = await call(services, "X", client_ip="10.0.0.9")
            assert result.structured == [True, {"original_plugin_output": "hi"}]
            outer, inner = started
            assert (outer.tool, inner.tool, inner.door, inner.turn_id) == ("X", "Echo", Door.AGENT, "t")

    asyncio.run(main())


DEEP = [
    ("async def", "r = await context.call_tool('X', {})"),
    ("async def", "r = await context.call_tool('X', {}, within=within)"),
    ("async def", "r = await asyncio.create_task(context.call_tool('X', {}))"),
    ("def", "r = context.wait(context.call_tool('X', {}))"),
]


@pytest.mark.parametrize(("method", "calling"), DEEP)
def test_plugins_that_call_each_other_end_at_the_limit_of_depth(alone: Path, method: str, calling: str) -> None:
    body = f"{calling}\nreturn r.structured if r.ok else [r.error_kind, r.message, within.depth]"
    kind, message, depth = answer(alone, body, method)
    assert (kind, depth) == (ErrorKind.LIMIT, 5)
    assert "more than 5 deep" in message


def test_the_deadline_of_the_outer_call_holds_for_the_inner_one(alone: Path) -> None:
    write_module(alone, "Slow", plugin("await asyncio.sleep(60)"))
    write_module(
        alone,
        "X",
        plugin("r = await context.call_tool('Slow', {})\nreturn [r.error_kind, within.deadline]"),
        timeout=9000,
    )

    async def main() -> None:
        async with serving(alone) as services:
            deadline = asyncio.get_running_loop().time() + 0.1
            result = await call(services, "X", deadline=deadline)
            assert result.error_kind is ErrorKind.TIMEOUT or result.structured[0] == ErrorKind.TIMEOUT

    asyncio.run(main())


@pytest.mark.parametrize(("password", "ok"), [("context.auth_code()", True), ("'000000'", False)])
def test_d30_a_plugin_brings_the_code_while_calls_must_have_one(alone: Path, password: str, ok: bool) -> None:
    write_plugin(alone, "Echo", ECHO)
    body = f"r = await context.call_tool('Echo', {{'text': 'x', 'tool_password': {password}}})\nreturn [r.ok]"
    write_module(alone, "X", plugin(body))

    async def main() -> None:
        async with serving(alone, "VCPToolCode=true") as services:
            code_file = alone / "Plugin" / "UserAuth" / "code.bin"
            code_file.parent.mkdir(parents=True)
            code_file.write_bytes(base64.b64encode(b"[[]"))
            assert services.auth_code() == "300000"
            standing = CallContext("t", Door.STREAM)
            result = await services.router.call(ToolCall("c", "X", {}, password="300000"), standing)
            assert result.structured == [ok]

    asyncio.run(main())


def test_work_that_a_call_leaves_behind_is_not_bound_to_its_deadline(alone: Path) -> None:
    write_module(alone, "Echo", plugin("return 'echo'"))
    later = (
        "async def later():\n    await asyncio.sleep(0.4)\n    r = await context.call_tool('Echo', {})\n"
        "    context.push('done', [r.ok, r.structured])\nself.task = asyncio.create_task(later())\nreturn 1"
    )
    write_module(alone, "X", plugin(later), timeout=300)

    async def main() -> None:
        async with serving(alone) as services:
            pushed: list[Pushed] = []
            services.events.listen(pushed.append, Pushed)  # type: ignore[arg-type]  # only of this kind
            assert (await call(services, "X")).ok
            await until(lambda: pushed)
            assert pushed[0].data == [True, "echo"]

    asyncio.run(main())


def test_a_tool_that_is_not_there_is_an_answer_and_no_error(alone: Path) -> None:
    body = "r = await context.call_tool('Nobody', {})\nreturn [r.ok, r.error_kind]"
    assert answer(alone, body) == [False, ErrorKind.UNKNOWN_TOOL]


MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = repr({"model": "m", "stream": True, "stream_options": {"include_usage": True}, "messages": MESSAGES})


@pytest.mark.parametrize(
    ("method", "asking"),
    [("async def", f"await context.chat({CHAT})"), ("def", f"context.wait(context.chat({CHAT}))")],
)
def test_a_chat_is_a_whole_turn_of_the_server_with_its_tools(alone: Path, method: str, asking: str) -> None:
    write_plugin(alone, "Echo", ECHO)
    write_module(alone, "X", plugin(f"done = {asking}\nreturn done['choices'][0]['message']['content']", method))

    async def main() -> None:
        script = [say(call_text("Echo", text="from the tool")), say("the end")]
        async with ScriptedUpstream(script) as up, running(alone, up.base_url) as server:
            result = await call(server.services, "X")
            assert result.structured.endswith("\nthe end")
            first, second = (exchange.request.json for exchange in up.exchanges)
            assert "stream_options" not in first
            assert not first.get("stream")
            assert "from the tool" in json.dumps(second, ensure_ascii=False)
            assert len([event for event in server.events if isinstance(event, TurnFinished)]) == 1

    asyncio.run(main())


def test_chats_that_lead_to_tools_that_lead_to_chats_end_at_the_limit(alone: Path) -> None:
    body = f"done = await context.chat({CHAT})\nreturn done['choices'][0]['message']['content']"
    write_module(alone, "X", plugin(body))

    async def main() -> None:
        def always(request: Received) -> Reply:
            done = "TOOL_REQUEST" in json.dumps(request.json["messages"]) and len(request.json["messages"]) > 1
            return say("enough" if done else call_text("X"))

        async with ScriptedUpstream(always) as up, running(alone, up.base_url) as server:
            result = await call(server.services, "X")
            assert result.ok
            assert "more than 5 deep" in json.dumps([e.request.json for e in up.exchanges], ensure_ascii=False)
            assert len(up.exchanges) <= 2 * 5

    asyncio.run(main())


def test_a_chat_inside_a_preprocessor_does_not_go_on_for_ever(alone: Path) -> None:
    source = f"""
    def create(context):
        class P:
            async def process(self, body, given):
                try:
                    await context.chat({CHAT})
                except Exception as error:
                    context.log.warning("told: %s", error.message)
                return body
        return P()
    """
    write_module(alone, "X", source, pluginType="messagePreprocessor")

    async def main() -> None:
        async with ScriptedUpstream(lambda request: say("yes")) as up, running(alone, up.base_url) as server:
            answered = await server.chat("hi")
            assert answered.status_code == 200
            assert len(up.exchanges) == 6

    asyncio.run(main())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("await context.chat({'messages': []})", "'messages'"),
        ("await context.chat({'messages': [5]})", "messages[0]"),
        ("await context.chat([])", "JSON object"),
        (f"await context.chat({CHAT})", "nope"),
    ],
)
def test_a_chat_that_fails_says_why(alone: Path, body: str, said: str) -> None:
    write_module(alone, "X", plugin(body))

    async def main() -> None:
        async with (
            ScriptedUpstream(lambda request: json_reply({"error": {"message": "nope"}}, status=400)) as up,
            running(alone, up.base_url) as server,
        ):
            result = await call(server.services, "X")
            assert result.error_kind is ErrorKind.EXECUTION
            assert said in result.message

    asyncio.run(main())


def test_a_call_that_is_cancelled_ends_its_chat(alone: Path) -> None:
    write_module(alone, "X", plugin(f"await context.chat({CHAT})"))

    async def main() -> None:
        async with ScriptedUpstream(lambda request: say("never")) as up, running(alone, up.base_url) as server:
            asked = asyncio.Event()
            server.services.events.listen(lambda event: asked.set(), CallStarted)
            running_call = asyncio.create_task(call(server.services, "X"))
            await asked.wait()
            while not len(server.services.running):
                await asyncio.sleep(0)
            running_call.cancel()
            await asyncio.wait({running_call})
            assert len(server.services.running) == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "asking"),
    [("async def", "await context.embed(['a', 'b'])"), ("def", "context.wait(context.embed(['a', 'b']))")],
)
def test_vectors_come_from_the_configured_model_in_the_order_of_the_texts(
    alone: Path, method: str, asking: str
) -> None:
    write_module(alone, "X", plugin(f"return {asking}", method))
    reply = json_reply({"data": [{"index": 1, "embedding": [2, 0.5]}, {"index": 0, "embedding": [1, 0]}]})

    async def main() -> None:
        config = ["WhitelistEmbeddingModel=vec-1,vec-2"]
        async with ScriptedUpstream([reply]) as up, running(alone, up.base_url, config=config) as server:
            assert (await call(server.services, "X")).structured == [[1.0, 0.0], [2.0, 0.5]]
            assert up.exchanges[0].request.json == {"model": "vec-1", "input": ["a", "b"]}

    asyncio.run(main())


@pytest.mark.parametrize("method", ["async def", "def"])
def test_a_push_is_an_event_at_once_from_the_loop_and_from_threads(alone: Path, method: str) -> None:
    body = "context.push('note', {'a': 1}, target_client_type='VCPLog')\ncontext.push('all', [])\nreturn 1"
    write_module(alone, "X", plugin(body, method))

    async def main() -> None:
        async with serving(alone) as services:
            pushed: list[Pushed] = []
            services.events.listen(pushed.append, Pushed)  # type: ignore[arg-type]  # only of this kind
            assert (await call(services, "X")).ok
            assert pushed == [Pushed("X", "note", {"a": 1}, "VCPLog"), Pushed("X", "all", [], None)]

    asyncio.run(main())


@pytest.mark.parametrize("method", ["async def", "def"])
def test_progress_is_an_event_at_once_from_the_loop_and_from_threads(alone: Path, method: str) -> None:
    body = "context.progress(call, 1, 4, 'a')\ncontext.progress(call, 2.5)\nreturn 1"
    write_module(alone, "X", plugin(body, method))

    async def main() -> None:
        async with serving(alone) as services:
            told: list[CallProgress] = []
            services.events.listen(told.append, CallProgress)  # type: ignore[arg-type]  # only of this kind
            assert (await call(services, "X")).ok
            assert told == [CallProgress("t", "c1", 1, 4, "a"), CallProgress("t", "c1", 2.5, None, "")]

    asyncio.run(main())


def test_progress_that_is_no_number_is_an_error_of_the_plugin(alone: Path) -> None:
    write_module(alone, "X", plugin("context.progress(call, 'half')"))

    async def main() -> None:
        async with serving(alone) as services:
            assert not (await call(services, "X")).ok

    asyncio.run(main())


@pytest.mark.parametrize("method", ["async def", "def"])
def test_those_who_watch_the_inner_workings_are_told_from_the_loop_and_from_threads(alone: Path, method: str) -> None:
    write_module(alone, "X", plugin("context.inform({'type': 'DETAILS', 'a': [1]})\nreturn 1", method))

    async def main() -> None:
        async with serving(alone) as services:
            told: list[Informed] = []
            services.events.listen(told.append, Informed)  # type: ignore[arg-type]  # only of this kind
            assert (await call(services, "X")).ok
            assert told == [Informed("X", {"type": "DETAILS", "a": [1]})]

    asyncio.run(main())


@pytest.mark.parametrize("message", ["{}", "{'type': 7}", "['type']", "'type'", "None", "{'type': 'x', 'y': {1}}"])
def test_what_is_no_message_with_a_type_is_an_error_of_the_plugin(alone: Path, message: str) -> None:
    write_module(alone, "X", plugin(f"context.inform({message})"))

    async def main() -> None:
        async with serving(alone) as services:
            told: list[Informed] = []
            services.events.listen(told.append, Informed)  # type: ignore[arg-type]  # only of this kind
            result = await call(services, "X")
            assert result.error_kind is ErrorKind.EXECUTION or result.error_kind is ErrorKind.PLUGIN
            assert " / " in result.message  # in both languages
            assert told == []

    asyncio.run(main())


def test_a_push_of_what_is_no_json_is_an_error_of_the_plugin(alone: Path) -> None:
    write_module(alone, "X", plugin("context.push('note', {1})"))

    async def main() -> None:
        async with serving(alone) as services:
            assert "not JSON" in (await call(services, "X")).message

    asyncio.run(main())


def test_wait_in_the_loop_is_refused_and_leaves_nothing_unawaited(alone: Path) -> None:
    write_module(alone, "X", plugin("context.wait(asyncio.sleep(1))"))

    async def main() -> None:
        async with serving(alone) as services:
            assert "write await here" in (await call(services, "X")).message

    asyncio.run(main())


def test_http_is_one_client_with_limits_for_all_plugins(alone: Path) -> None:
    body = "h = context.http\nr = await h.get(os.environ['TEST_URL'])\nreturn [r.status_code, id(h), h.timeout.connect]"
    for name in ("A", "B"):
        write_module(alone, name, plugin(body))

    async def main(patch: pytest.MonkeyPatch) -> None:
        async with ScriptedUpstream([json_reply({}), json_reply({})]) as up, serving(alone) as services:
            patch.setenv("TEST_URL", up.base_url)
            a, b = [await call(services, name) for name in ("A", "B")]
            assert a.structured == b.structured
            assert a.structured[0] == 200
            assert a.structured[2] == 10
            client = services.side_requests
        assert client.is_closed

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(main(patch))


@pytest.mark.parametrize(
    "name", ["X", "我的 插件", "../../x", "a/b", "a\0b", ".", "..", "", "x" * 300, "con.txt", " x "]
)
def test_the_store_of_a_plugin_is_one_folder_of_the_home_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = store_dir(tmp_path, name)
    assert path.is_dir()
    assert path.parent == tmp_path / STORES
    assert path.resolve().parent == (tmp_path / STORES).resolve()
    assert store_dir(tmp_path, name) == path
    assert path.stat().st_mode & 0o077 == 0


def test_names_that_are_alike_have_stores_of_their_own(tmp_path: Path) -> None:
    assert len({store_dir(tmp_path, name) for name in ("a/b", "a.b", "a_b", "a:b")}) == 4


def test_a_store_that_leads_out_of_the_home_costs_the_plugin(alone: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_module(alone, "X", plugin("return 1"))
    outside = alone.parent / f"{alone.name}-outside"
    outside.mkdir()
    (alone / STORES).mkdir(parents=True)
    (alone / STORES / "X").symlink_to(outside)

    async def main() -> None:
        async with serving(alone) as services:
            assert "leads out of the installation" in services.in_process.problems()[0]

    asyncio.run(main())


def test_what_a_plugin_logs_has_its_name(alone: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answer(alone, "context.log.info('hello')\nreturn 1")
    assert [record.name for record in caplog.records if record.message == "hello"] == ["plugin.X"]


def test_the_home_of_an_installation_has_the_folders_of_pictures_and_files(tmp_path: Path) -> None:
    services_in(tmp_path)
    assert (tmp_path / "image").is_dir()
    assert (tmp_path / "file").is_dir()


def asks_until(most: int) -> Callable[[Received], Answer]:
    """A model that calls X whenever it is asked something new; after ``most`` requests it has enough."""
    asked = 0

    def reply(request: Received) -> Answer:
        nonlocal asked
        asked += 1
        answered = len(request.json["messages"]) > 1
        return say("enough" if answered or asked > most else call_text("X"))

    return reply


def test_a_chat_over_the_shared_http_client_stands_where_its_call_does(alone: Path) -> None:
    body = (
        "environ = context.environ\n"
        "address = f\"http://localhost:{environ['PORT']}/v1/chat/completions\"\n"
        f"body = {CHAT} | {{'stream': False}}\n"
        "headers = {'Authorization': ('Bearer ' + environ['Key']).encode()}\n"
        "done = await context.http.post(address, json=body, headers=headers)\n"
        "return done.json()"
    )
    write_module(alone, "X", plugin(body))

    async def main() -> None:
        async with ScriptedUpstream(asks_until(40)) as up, running(alone, up.base_url) as server:
            assert (await call(server.services, "X")).ok
            assert "MaxCallDepth" in json.dumps([e.request.json for e in up.exchanges])
            assert len(up.exchanges) <= 2 * 6

    run(main())


def test_other_servers_are_not_told_how_deep_a_call_stands(alone: Path) -> None:
    write_module(alone, "X", plugin("return (await context.http.get(call.arguments['url'])).text"))

    async def main() -> None:
        async with ScriptedUpstream([json_reply({}), json_reply({})]) as up, running(alone, up.base_url) as server:
            for host in ("127.0.0.1", "localhost"):
                url = up.base_url.replace("127.0.0.1", host)
                assert (await call(server.services, "X", {"url": url})).ok
            assert not [request for request in up.requests if "x-vcp-call-depth" in request.headers]

    run(main())


def test_what_a_step_of_a_turn_calls_stands_in_that_turn(alone: Path) -> None:
    """A chain over processes is counted on in the preprocessors of its chats, or it would never end."""
    source = """
    def create(context):
        class P:
            async def process(self, body, given):
                result = await context.call_tool("Depth", {})
                body["messages"].append({"role": "user", "content": str(result.structured)})
                return body
        return P()
    """
    write_module(alone, "Step", source, pluginType="messagePreprocessor")
    tells = "import json, os; print(json.dumps({'status': 'success', 'result': {k: os.environ.get(k) for k in %r}}))"
    write_plugin(alone, "Depth", tells % (["VCP_CALL_DEPTH", "VCP_REQUEST_IP"],))

    async def main() -> None:
        async with ScriptedUpstream(lambda request: say("yes")) as up, running(alone, up.base_url) as server:
            await server.client.post("/v1/chat/completions", json=chat_body("hi"), headers={"X-VCP-Call-Depth": "3"})
            told = up.bodies[0]["messages"][-1]["content"]
            assert told == "{'VCP_CALL_DEPTH': '5', 'VCP_REQUEST_IP': '127.0.0.1'}"
            await server.client.post("/v1/chat/completions", json=chat_body("hi"), headers={"X-VCP-Call-Depth": "5"})
            assert up.bodies[1]["messages"][-1]["content"] == "None"

    run(main())
