"""Far nodes at the main server: messages of spec 6.4, vectors W3 to W6, B16, B32, P81."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallContext, CallStarted, Door, ErrorKind, NodeJoined, NodeLeft
from app.hub.clients import ClientType
from app.hub.nodes.key_file import limit_node_tools, make_node_key, revoke_node_key
from app.plugins.far_manifest import far_tool
from tests.hub.clients import SOCKET_KEY, address, connected
from tests.hub.nodes.wire_nodes import NODE_PATH, WireNode, call, main_server, manifest, names, node, until
from tests.server import KEY, call_text, run, write_plugin

ECHO_DESCRIPTION = "- [云端] Echo (Echo) - 命令: run:\n    Runs Echo.\n    Args: text\n  调用示例:\n    E1"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
def test_w3_a_model_calls_a_tool_of_a_node(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        script = [say(call_text("Echo", maid="Nova", text="hi")), say("done")]
        async with (
            ScriptedUpstream(script) as upstream,
            main_server(tmp_path, upstream=upstream.base_url) as server,
            node(server, "workshop", "Echo") as far,
            far.answering(lambda request: {"original_plugin_output": "hi"}) as came,
        ):
            answer = await server.chat(
                {"role": "system", "content": "{{VCPEcho}}|{{VCPAllTools}}"}, "go", stream=stream
            )
            assert answer.status_code == 200
            assert set(came[0]) == {"requestId", "toolName", "toolArgs"}
            assert (came[0]["toolName"], came[0]["toolArgs"]) == ("Echo", {"maid": "Nova", "text": "hi"})
            system, *_, fed_back = upstream.bodies[1]["messages"]
            assert system["content"].startswith(ECHO_DESCRIPTION + "|")
            assert ECHO_DESCRIPTION in system["content"].partition("|")[2]
            assert fed_back["content"][0]["text"].startswith(
                '来自工具 "Echo" 的结果:\n{\n  "original_plugin_output": "hi"'
            )
            assert [event.node for event in server.events if isinstance(event, CallStarted)] == ["workshop"]

    run(main())


def test_w4_a_name_that_this_server_has_stays_its_own_and_the_nodes_is_reached_by_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", 'print(\'{"status":"success","result":"local"}\')')
        async with (
            main_server(tmp_path) as server,
            node(server, "workshop", "Echo") as far,
            far.answering(lambda request: "remote"),
        ):
            assert (await call(server, "Echo")).structured == {"original_plugin_output": "local"}
            assert (await call(server, "workshop#Echo")).structured == {"original_plugin_output": "remote"}

    run(main())
    assert "workshop#<tool>: Echo" in caplog.text


def test_a_node_cannot_stand_between_a_plugin_of_ours_and_its_commands(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(
            tmp_path,
            "Echo",
            'print(\'{"status":"success","result":"local"}\')',
            capabilities={"invocationCommands": [{"command": "say", "description": "d"}]},
        )
        async with main_server(tmp_path) as server, node(server, "workshop", "Echo.say"):
            assert (await call(server, "Echo.say")).structured == {"original_plugin_output": "local"}

    run(main())


def test_w5_with_its_connection_a_nodes_tools_and_placeholders_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(lambda request: say("ok")) as upstream,
            main_server(tmp_path, upstream=upstream.base_url) as server,
        ):
            prompt = {"role": "system", "content": "{{VCPEcho}} {{VCPWeather}}"}
            async with node(server, "workshop", "Echo") as far:
                await far.tell("update_static_placeholders", placeholders={"{{VCPWeather}}": "rain"})
                await server.chat(prompt, "go")
            await until(lambda: not names(server))
            await server.chat(prompt, "go")
            assert upstream.bodies[0]["messages"][0]["content"] == f"{ECHO_DESCRIPTION} rain"
            assert upstream.bodies[1]["messages"][0]["content"] == "{{VCPEcho}} {{VCPWeather}}"
            assert (await call(server, "Echo")).error_kind is ErrorKind.UNKNOWN_TOOL
            told = [event for event in server.events if isinstance(event, NodeJoined | NodeLeft)]
            assert told == [
                NodeJoined("workshop", "127.0.0.1", ("Echo",)),
                NodeLeft("workshop", "connection closed (1000)"),
            ]

    run(main())


def test_w6_a_silent_node_ends_with_the_literal_of_a_timeout(tmp_path: Path) -> None:
    async def main() -> None:
        silent = manifest("Echo", communication={"timeout": 150})
        async with main_server(tmp_path) as server, node(server, "workshop", silent) as far:
            result = await call(server, "Echo")
            assert result.error_kind is ErrorKind.TIMEOUT
            (client,) = server.services.hub.clients(ClientType.NODE)
            text = f"Request to distributed tool Echo on server dist-{client.id} timed out after 0.15s."
            assert result.message == text
            await far.answer(await far.asked(), "late")
            await (await far.connection.ping())
            assert server.services.nodes.list()[0].failures == 1

    run(main())


def test_a_node_without_a_time_limit_of_its_own_has_a_minute() -> None:
    assert far_tool(manifest("Echo", pluginType="asynchronous")).timeout == 60
    assert far_tool(manifest("Echo", communication={"timeout": 1500})).timeout == 1.5


@pytest.mark.parametrize(
    ("result", "structured"),
    [
        ({"a": 1, "content": "text"}, {"a": 1, "content": "text"}),
        ('{"a":1}', {"original_plugin_output": '{"a":1}'}),
        (7, {"original_plugin_output": 7}),
        (False, {"original_plugin_output": False}),
        ([1, "二"], [1, "二"]),
        (None, None),
    ],
)
def test_results_are_wrapped_as_those_of_plugins_but_texts_are_not_read(
    tmp_path: Path, result: Any, structured: Any
) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo") as far, far.answering(lambda _: result):
            got = await call(server, "Echo")
            assert got.ok
            assert got.structured == structured

    run(main())


def test_content_parts_of_a_node_are_content_parts(tmp_path: Path) -> None:
    async def main() -> None:
        parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
        async with (
            main_server(tmp_path) as server,
            node(server, "n", "Echo") as far,
            far.answering(lambda _: {"content": parts}),
        ):
            assert (await call(server, "Echo")).parts == tuple(parts)

    run(main())


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ({"error": "no paper"}, ErrorKind.PLUGIN, "no paper"),
        ({"error": '{"plugin_error":"no ink"}'}, ErrorKind.PLUGIN, "no ink"),
        ({"error": '{"plugin_execution_error":"crash"}'}, ErrorKind.EXECUTION, "crash"),
        ({"error": {"code": 5}}, ErrorKind.PLUGIN, '{"code":5}'),
        ({"message": "in the other field"}, ErrorKind.PLUGIN, "in the other field"),
        ({}, ErrorKind.PLUGIN, 'Plugin "Echo" reported an unspecified error.'),
        ({"error": "{broken"}, ErrorKind.PLUGIN, "{broken"),
        ({"status": "odd", "error": 7}, ErrorKind.PLUGIN, "7"),
    ],
)
def test_errors_of_a_node_are_errors_of_its_plugin(
    tmp_path: Path, said: dict[str, Any], kind: ErrorKind, message: str
) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo") as far:
            running = asyncio.create_task(call(server, "Echo"))
            await far.answer(await far.asked(), **{"status": "error", **said})
            result = await running
            assert (result.error_kind, result.message) == (kind, message)
            assert server.services.nodes.list()[0].last_error == message

    run(main())


def test_only_the_node_that_was_asked_can_answer_and_only_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "a", "Echo") as asked,
            node(server, "b", "Other") as stranger,
        ):
            running = asyncio.create_task(call(server, "Echo"))
            request = await asked.asked()
            await stranger.answer(request, "forged")
            await (await stranger.connection.ping())
            assert not running.done()
            await asked.answer(request, "true")
            await asked.answer(request, "twice")
            await asked.answer({"requestId": ["odd"]}, "odd")
            assert (await running).structured == {"original_plugin_output": "true"}
            await (await asked.connection.ping())
            assert names(server) == ["a", "b"]

    run(main())


def test_b32_calls_to_a_lost_node_fail_at_once_and_say_that_they_may_have_been_carried_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo") as far:
            running = [asyncio.create_task(call(server, "Echo")) for _ in range(3)]
            for _ in running:
                await far.asked()
            far.connection.transport.abort()
            for result in await asyncio.gather(*running):
                assert result.error_kind is ErrorKind.EXECUTION
                assert "may have been carried out" in result.message
            assert (await call(server, "Echo")).error_kind is ErrorKind.UNKNOWN_TOOL

    run(main())


def test_p81_a_node_that_answers_no_pings_loses_its_tools(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path, "SocketPingSeconds=0.05") as server, node(server, "n", "Echo") as far:
            far.connection.transport.pause_reading()
            await until(lambda: not names(server))
            assert "Echo" not in server.services.router.specs()
            far.connection.transport.abort()

    run(main())


def test_a_cancelled_call_is_cancelled_at_a_node_that_can_do_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "able", "A", capabilities={"cancelTool": True}) as able,
            node(server, "unable", "B") as unable,
        ):
            for far, tool in ((able, "A"), (unable, "B")):
                running = asyncio.create_task(call(server, tool))
                request = await far.asked()
                running.cancel()
                await asyncio.wait([running])
                if far is able:
                    told = await far.receive()
                    assert told == {"type": "cancel_tool", "data": {"requestId": request["requestId"]}}
            await unable.nothing_waits()

    run(main())


def test_a_late_call_is_cancelled_at_a_node_that_can_do_it(tmp_path: Path) -> None:
    async def main() -> None:
        late = manifest("A", communication={"timeout": 30})
        async with main_server(tmp_path) as server, node(server, "n", late, capabilities={"cancelTool": True}) as far:
            assert (await call(server, "A")).error_kind is ErrorKind.TIMEOUT
            request = await far.asked()
            assert (await far.receive())["data"] == {"requestId": request["requestId"]}

    run(main())


def test_the_later_form_tells_where_a_call_comes_from_beside_its_arguments(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path, "compat_profile=head") as server,
            node(server, "n", "Echo") as far,
            far.answering(lambda _: 1) as came,
        ):
            await call(server, "Echo", text="hi", _vcpContext="forged")
            assert came[0]["_vcpContext"] == {"turnId": "turn", "source": "human_tool", "depth": 0}
            assert came[0]["toolArgs"] == {"text": "hi", "_vcpContext": "forged"}

    run(main())


def test_untyped_commands_get_texts_and_typed_ones_json(tmp_path: Path) -> None:
    async def main() -> None:
        typed = manifest(
            "T", capabilities={"invocationCommands": [{"command": "run", "description": "d", "typed": True}]}
        )
        async with (
            main_server(tmp_path) as server,
            node(server, "n", "U", typed) as far,
            far.answering(lambda _: 1) as came,
        ):
            for tool in ("U", "T"):
                await call(server, tool, number=5, flag=True, empty=None)
            await call(server, "U", door=Door.SCHEDULE, number=5)
            assert [request["toolArgs"] for request in came] == [
                {"number": "5", "flag": "true"},
                {"number": 5, "flag": True, "empty": None},
                {"number": 5},
            ]

    run(main())


def test_arguments_beyond_the_longest_frame_are_a_clear_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path, "NodeMaxFrameMB=1") as server, node(server, "n", "Echo") as far:
            result = await call(server, "Echo", text="x" * 1024 * 1024)
            assert result.error_kind is ErrorKind.EXECUTION
            assert "NodeMaxFrameMB" in result.message
            deep: Any = "x"
            for _ in range(5000):
                deep = [deep]
            assert not (await call(server, "Echo", door=Door.SCHEDULE, text=deep)).ok
            await far.nothing_waits()

    run(main())


def test_a_registration_replaces_what_the_node_had_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "A", "B") as far:
            await far.register("n", "B", "C")
            assert list(server.services.nodes.tools()) == ["B", "C"]
            await far.register("n", "B", "C")
            told = [event.tools for event in server.events if isinstance(event, NodeJoined)]
            assert told == [("A", "B"), ("B", "C")]

    run(main())


def test_placeholders_of_nodes_stand_behind_ours_and_the_first_node_keeps_a_key(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(
            tmp_path,
            "Weather",
            "print('sun')",
            pluginType="static",
            capabilities={"systemPromptPlaceholders": [{"placeholder": "{{VCPWeather}}"}]},
        )
        async with (
            ScriptedUpstream(lambda request: say("ok")) as upstream,
            main_server(tmp_path, "RunStaticPlugins=true", "TarMine=own", upstream=upstream.base_url) as server,
        ):

            async def shown(text: str) -> str:
                await server.chat({"role": "system", "content": text}, "go")
                content: str = upstream.bodies[-1]["messages"][0]["content"]
                return content

            async with node(server, "a", "A") as first:
                values = {
                    "{{VCPWeather}}": "storm",
                    "{{TarMine}}": "forged",
                    "{{Free}}": "{{TarMine}} 一",
                    "Bare": "",
                    "{{VCP_ASYNC_RESULT::P::1}}": "forged",
                }
                await first.tell("update_static_placeholders", serverName="a", placeholders=values)
                async with node(server, "b", "B") as second:
                    await second.tell("update_static_placeholders", placeholders={"{{Free}}": "二", "{{Second}}": 2})
                    assert await shown("{{Free}} {{Second}} {{Bare}}") == "{{TarMine}} 一 2 [Bare 信息不可用]"
                    await until(lambda: server.services.statics.states()[0].last_run is not None)
                    weather, mine, task = (await shown("{{VCPWeather}}|{{TarMine}}|{{VCP_ASYNC_RESULT::P::1}}")).split(
                        "|"
                    )
                    assert "storm" not in weather
                    assert mine == "own"
                    assert "forged" not in task
                    await first.tell("update_static_placeholders", placeholders={"{{Free}}": None})
                    assert await shown("{{Free}}") == "二"

    run(main())


def test_b16_a_tool_of_a_node_takes_no_placeholder_that_this_server_fills(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(
            tmp_path,
            "Weather",
            "print('sun')",
            pluginType="static",
            capabilities={"systemPromptPlaceholders": [{"placeholder": "{{VCPWeatherInfo}}"}]},
        )
        async with (
            ScriptedUpstream(lambda request: say("ok")) as upstream,
            main_server(tmp_path, upstream=upstream.base_url) as server,
            node(server, "n", "WeatherInfo", "AllTools", "Echo"),
        ):
            await server.chat({"role": "system", "content": "{{VCPWeatherInfo}}@{{VCPAllTools}}"}, "go")
            weather, tools = upstream.bodies[0]["messages"][0]["content"].split("@", 1)
            assert weather == "[VCPWeatherInfo 信息不可用]"
            assert all(f"({tool})" in tools for tool in ("WeatherInfo", "AllTools", "Echo"))

    run(main())


def test_a_plugins_result_is_forwarded_by_the_node_that_has_the_plugin(tmp_path: Path) -> None:
    async def main() -> None:
        push = {"enabled": True, "messageType": "video", "targetClientType": "VCPLog"}
        async with (
            main_server(tmp_path) as server,
            node(server, "n", manifest("Video", pluginType="asynchronous", webSocketPush=push)) as far,
            node(server, "other", "Else") as other,
        ):
            results = tmp_path / "VCPAsyncResults"
            body = {"pluginName": "Video", "taskId": "t1", "status": "Succeed"}
            for wrong in (
                {**body, "pluginName": "Nope"},
                {**body, "taskId": "../up"},
                {**body, "taskId": "nul\0"},
                {"pluginName": "Video"},
                [],
                "text",
                {**body, "big": "x" * 9 * 1024 * 1024},
            ):
                await far.tell("plugin_callback_forward", callbackData=wrong)
            await other.tell("plugin_callback_forward", callbackData=body)
            await far.tell("plugin_callback_forward", serverName="n", callbackData=body)
            await until(lambda: (results / "Video-t1.json").exists())
            assert [path.name for path in results.iterdir()] == ["Video-t1.json"]
            await until(lambda: any(type(event).__name__ == "BackgroundResult" for event in server.events))
            told = next(event for event in server.events if type(event).__name__ == "BackgroundResult")
            assert (told.plugin, told.task_id, told.body) == ("Video", "t1", body)  # type: ignore[union-attr]
            assert told.push is not None  # type: ignore[union-attr]
            assert told.push.message_type == "video"  # type: ignore[union-attr]

    run(main())


def test_nothing_of_a_manifest_but_names_is_logged_or_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo", {"name": "bad", "x": "secret-x"}):
            spec = server.services.nodes.tools()["Echo"]
            assert "secret" not in repr(spec)
            assert "secret" not in repr(server.services.nodes.list())

    run(main())
    ours = [record for record in caplog.records if not record.name.startswith("websockets")]
    assert any(record.name == "app.hub.nodes.nodes" for record in ours)
    assert not any("secret" in record.getMessage() for record in ours)


def test_the_list_of_nodes_tells_how_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "n", "Echo", version="1.2", labels=["gpu", 7, "a#b"]) as far,
        ):
            running = asyncio.create_task(call(server, "Echo"))
            request = await far.asked()
            await until(lambda: server.services.nodes.list()[0].latency is not None)
            (state,) = server.services.nodes.list()
            assert (state.name, state.version, state.address, state.tools) == ("n", "1.2", "127.0.0.1", ("Echo",))
            assert (state.labels, state.running, state.calls, state.failures) == (("gpu",), 1, 1, 0)
            await far.answer(request, 1)
            await running
            assert server.services.nodes.list()[0].running == 0

    run(main())


def test_the_route_of_nodes_tells_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo"):
            listed = (await server.client.get("/v1/nodes")).json()["nodes"]
            assert [(state["name"], state["tools"]) for state in listed] == [("n", ["Echo"])]

    run(main())


def test_a_key_of_a_node_is_its_name_and_its_list_and_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / ".vcp").mkdir(parents=True)
        key = make_node_key(tmp_path, "forge", 0, tools=("Echo",))
        async with (
            main_server(tmp_path) as server,
            connected(address(server.url, NODE_PATH, key)) as wire,
            node(server, "forge", "Other") as squatter,
        ):
            far = WireNode(wire.connection)
            await far.register("whatever", "Echo", "Secret")
            assert names(server) == ["forge-2", "forge"]
            assert set(server.services.nodes.tools()) == {"Echo", "Other"}
            limit_node_tools(tmp_path, "forge", None)
            server.services.node_keys.identify("nobody's")  # whoever comes makes it look at the file at once
            await until(lambda: "Secret" in server.services.nodes.tools())
            revoke_node_key(tmp_path, "forge")
            server.services.node_keys.identify("nobody's")  # whoever comes makes it look at the file at once
            await wire.connection.wait_closed()
            await squatter.nothing_waits()
            assert names(server) == ["forge-2"]

    run(main())


def test_a_list_of_tools_also_holds_for_names_that_commands_bring(tmp_path: Path) -> None:  # D69
    async def main() -> None:
        (tmp_path / ".vcp").mkdir(parents=True)
        key = make_node_key(tmp_path, "forge", 0, tools=("Echo", "Listed"))
        named = [{"command": name, "description": "d", "toolName": name} for name in ("Listed", "Bank")]
        echo = manifest("Echo", capabilities={"invocationCommands": named})
        async with main_server(tmp_path) as server, connected(address(server.url, NODE_PATH, key)) as wire:
            far = WireNode(wire.connection)
            await far.register("forge", echo)
            async with far.answering(lambda request: request["toolName"]):
                for name in ("Listed", "Echo"):
                    assert (await call(server, name)).structured == {"original_plugin_output": "Echo"}
                assert (await call(server, "Bank")).error_kind is ErrorKind.UNKNOWN_TOOL
                async with node(server, "other", echo):  # the same tool, of a node without a list
                    pool = server.services.nodes._pools["Echo"]
                    assert [offer.node.name for offer in pool.members] == ["forge", "other"]

    run(main())


def test_500_calls_in_flight_on_one_node_are_all_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo") as far:
            running = [asyncio.create_task(call(server, "Echo", text=str(number))) for number in range(500)]
            requests = [await far.asked() for _ in running]
            assert len({request["requestId"] for request in requests}) == 500
            for request in reversed(requests):
                await far.answer(request, request["toolArgs"]["text"])
            results = await asyncio.gather(*running)
            assert [result.structured["original_plugin_output"] for result in results] == [str(n) for n in range(500)]

    run(main())


def test_a_node_that_reads_slowly_is_spared_and_not_hung_up_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path, "SocketQueueMB=1") as server, node(server, "n", "Echo") as far:
            far.connection.transport.pause_reading()
            text = "x" * 1_000_000
            running = [asyncio.create_task(call(server, "Echo", text=text)) for _ in range(20)]
            refused, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            assert {task.result().error_kind for task in refused} == {ErrorKind.QUEUE}
            far.connection.transport.resume_reading()
            async with far.answering(lambda _: 1):
                results = await asyncio.gather(*running)
            assert {result.error_kind for result in results} == {None, ErrorKind.QUEUE}
            assert names(server) == ["n"]

    run(main())


def test_a_node_has_a_limit_of_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hub.nodes.link.MAX_CALLS", 2)

    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo") as far:
            running = [asyncio.create_task(call(server, "Echo")) for _ in range(3)]
            requests = [await far.asked() for _ in range(2)]
            (refused,), _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            assert refused.result().error_kind is ErrorKind.QUEUE
            for request in requests:
                await far.answer(request, 1)
            assert [result.ok for result in await asyncio.gather(*running)].count(True) == 2

    run(main())


def test_a_file_is_asked_for_by_the_callers_address_then_by_what_is_reported_then_by_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "My PC", "A", capabilities={"filePieces": True}) as first,
            node(server, "far", "B") as second,
        ):
            nodes = server.services.nodes
            await second.tell("report_ip", serverName="far", localIPs=["10.0.0.7", 5], publicIP="203.0.113.5")

            def holder(url: str, ip: str | None) -> str | None:
                found = nodes.holder_for(url, CallContext("t", Door.STREAM, client_ip=ip))
                return found.name if found else None

            assert holder("file:///C:/a.png", "127.0.0.1") == "My_PC"
            assert holder("file:///C:/a.png", "10.0.0.7") == holder("file:///a", "203.0.113.5") == "far"
            assert holder("file://FAR/a.png", "192.0.2.1") == "far"
            assert holder("file://My%20PC/a.png", None) == "My_PC"
            assert holder("file:///a.png", None) is holder("file://[/a", "192.0.2.1") is None
            assert nodes.addresses() == {"127.0.0.1"}
            one = nodes.holder_for("file://far/a", CallContext("t", Door.STREAM))
            assert one is not None
            asking = asyncio.create_task(one.request("internal_request_file", {"fileUrl": "file:///a"}, 5))
            await second.answer(await second.asked(), {"status": "success", "fileData": "AA=="})
            assert (await asking)["fileData"] == "AA=="
            assert not one.announces("filePieces")
            await first.nothing_waits()

    run(main())


def test_the_tool_for_files_is_never_listed_or_callable(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "internal_request_file", "Echo"):
            assert list(server.services.router.specs())[-1] == "Echo"
            for name in ("internal_request_file", "n#internal_request_file"):
                assert (await call(server, name)).error_kind is ErrorKind.UNKNOWN_TOOL

    run(main())


def test_plugins_of_a_type_that_is_not_called_are_listed_and_refuse(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", manifest("S", pluginType="static")) as far:
            result = await call(server, "S")
            assert (result.error_kind, server.services.nodes.tools()["S"].callable) == (ErrorKind.EXECUTION, False)
            await far.nothing_waits()

    run(main())


def test_a_stop_of_the_server_ends_calls_and_connections(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo") as far:
            running = asyncio.create_task(call(server, "Echo"))
            await far.asked()
            await server.services.nodes.stop()
            assert not (await running).ok
            assert names(server) == []
            await far.connection.wait_closed()

    run(main())


def test_keys_in_the_error_of_a_node_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo") as far:
            calling = asyncio.create_task(call(server, "Echo"))
            await far.answer(await far.asked(), status="error", error=f"key {KEY} and {SOCKET_KEY}")
            assert KEY in (await calling).message, "the caller reads what the tool said"
        assert "key *** and ***" in caplog.text
        assert KEY not in caplog.text
        assert SOCKET_KEY not in caplog.text

    run(main())
