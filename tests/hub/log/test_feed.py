"""What clients are told of calls, diaries and reloads, over real connections (spec 4.11, 5.8, 5.11, 6.2, 6.3, 6.5)."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import (
    BackgroundResult,
    CallContext,
    CallFinished,
    DiaryWritten,
    Door,
    Event,
    Informed,
    Outcome,
    Pushed,
    TaskFinished,
    ToolCall,
    ToolPush,
    ToolResult,
    TurnFinished,
)
from app.hub.clients import ClientType
from tests.chat.gated_tools import GatedTools
from tests.hub.clients import SOCKET_KEY, address, connected
from tests.hub.log.told import SaidTools, by_hand, failed, logged, said
from tests.plugins.modules import write_module
from tests.reload.files import QUICK, save
from tests.server import ECHO, KEY, Running, call_text, run, running, write_plugin

UPSTREAM = "http://127.0.0.1:9"
CONFIG = (f"VCP_Key={SOCKET_KEY}",)
MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d")
PICTURE = "data:image/png;base64," + "QUJD" * 1000


def loop(stream: bool) -> str:
    return "stream_loop" if stream else "non_stream_loop"


async def until(server: Running, kind: type[Any], count: int = 1) -> None:
    while sum(isinstance(event, kind) for event in server.events) < count:
        await asyncio.sleep(0.002)


@MODES
def test_a_call_of_the_chat_is_one_vcp_log_whose_content_is_pretty_json(tmp_path: Path, stream: bool) -> None:  # W9
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        script = [say(call_text("Echo", text="二", maid="Nova")), say("done")]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=CONFIG) as server,
            connected(address(server.url)) as client,
        ):
            await server.chat("go", stream=stream)
            assert (await client.receive())["type"] == "connection_ack"
            message = await client.receive()
            content = message["data"].pop("content")
            expected = {"tool_name": "Echo", "status": "success", "source": loop(stream)}
            assert message == {"type": "vcp_log", "data": expected}
            stamp = STAMP.search(content)
            assert stamp is not None
            assert content == (
                f'{{\n  "original_plugin_output": "二",\n  "MaidName": "Nova",\n  "timestamp": "{stamp[0]}"\n}}'
            )
            await client.nothing_waits()

    run(main())


@MODES
def test_each_way_to_fail_has_its_source_and_its_words(tmp_path: Path, stream: bool) -> None:  # 4.5, 6.2
    code = tmp_path / "Plugin" / "UserAuth" / "code.bin"
    code.parent.mkdir(parents=True)
    code.write_bytes(base64.b64encode("[{<（《【".encode()))
    calls = [
        call_text("Bad", tool_password="111111", maid="Nova"),
        call_text("Gone", tool_password="111111"),
        call_text("Good"),
        call_text("Good", archery="true", tool_password="111111"),
        call_text("Bad", archery="no_reply", tool_password="111111"),
        call_text("Gone", archery="true", tool_password="111111"),
        call_text("Good", archery="true"),
    ]

    async def main() -> None:
        tools = SaidTools({"Good": said({"a": 1}), "Bad": failed("no: 'x'")})
        config = (*CONFIG, "VCPToolCode=true", "EagerTools=false")
        async with (
            ScriptedUpstream([say(call) for call in calls[:3]] + [say("".join(calls[3:]))]) as up,
            running(tmp_path, up.base_url, config=config, sources=[tools]) as server,
            connected(address(server.url)) as client,
        ):
            await server.chat("go", stream=stream)
            told = [await logged(client) for _ in calls]
            base = loop(stream)
            sources = [one["source"] for one in told[:3]]
            assert sources == [f"{base}_error", f"{base}_not_found", f"{base}_auth_error"]
            assert [one["status"] for one in told] == ["error"] * 3 + ["success"] + ["error"] * 3
            begin, _, error = told[0]["content"].partition("：")
            assert begin == "执行插件 Bad 时发生错误"
            assert json.loads(error).items() >= {"plugin_error": "no: 'x'", "MaidName": "Nova"}.items()
            assert told[1]["content"] == '错误：未找到名为 "Gone" 的插件。'
            assert told[2]["content"] == "工具调用验证失败：'tool_password'不正确或缺失。"
            assert [one["source"] for one in told[3:]] == [f"{base}_archery"] + [f"{base}_archery_error"] * 3
            assert told[5]["content"] == told[1]["content"]
            assert told[6]["content"] == told[2]["content"]

    run(main())


def test_calls_of_people_plugins_and_diaries_have_sources_of_their_own(tmp_path: Path) -> None:  # D66, 4.11
    source = (
        "def create(context):\n    class P:\n        async def call(self, call, within):\n"
        "            return (await context.call_tool('Bad', {})).message\n    return P()\n"
    )
    write_module(tmp_path, "Asks", source)
    diary = "<<<DailyNoteStart>>>\nMaid: Nova\nDate: 2026-01-05\nContent: 今天。\nTag: x\n<<<DailyNoteEnd>>>"

    async def main() -> None:
        tools = SaidTools({"Good": said("yes"), "Bad": failed("no")})
        async with (
            ScriptedUpstream([say(diary)]) as up,
            running(tmp_path, up.base_url, config=CONFIG, sources=[tools]) as server,
            connected(address(server.url)) as client,
        ):
            for tool in ("Good", "Gone", "Asks"):
                await by_hand(server, tool, maid="Nova")
            told = [await logged(client) for _ in range(4)]
            assert [(one["tool_name"], one["source"], one["status"]) for one in told] == [
                ("Good", "human_tool", "success"),
                ("Gone", "human_tool_error", "error"),
                ("Bad", "agent_error", "error"),
                ("Asks", "human_tool", "success"),
            ]
            assert told[0]["content"]["original_plugin_output"] == "yes"
            await server.stream("write")
            note = await logged(client)
            assert (note["tool_name"], note["source"]) == ("DailyNoteWrite", "diary_block")
            created = await client.receive()
            path = created["data"].pop("filePath")
            assert list((tmp_path / "dailynote" / "Nova").iterdir()) == [Path(path)]
            message = created["data"].pop("message")
            assert path in message
            data = {"maidName": "Nova", "dateString": "2026-01-05", "status": "success"}
            assert created == {"type": "daily_note_created", "data": data}

    run(main())


def test_a_scheduled_call_is_told_once_and_so_is_a_task_without_one(tmp_path: Path) -> None:  # 7.1, S2
    folder = tmp_path / "VCPTimedContacts"
    folder.mkdir(parents=True)

    def task(name: str, **fields: Any) -> None:
        fields = {"taskId": name, "scheduledLocalTime": "2020-01-01T08:00:00+08:00", **fields}
        (tmp_path / name).write_text(json.dumps(fields))
        (tmp_path / name).rename(folder / f"{name}.json")

    async def main() -> None:
        tools = SaidTools({"Good": said({"text": "长" * 1000}), "Bad": failed("no")})
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG, sources=[tools]) as server,
            connected(address(server.url)) as client,
        ):
            for name in ("Good", "Bad", "Gone"):
                task(f"task-{name}", tool_call={"tool_name": name, "arguments": {"maid": "Nova"}})
            task("task-None")
            server.services.schedule.look_again()
            await until(server, TaskFinished, 4)
            told = sorted([await logged(client) for _ in range(4)], key=lambda one: one["tool_name"])
            await client.nothing_waits()
            assert [(one["tool_name"], one["status"], one["source"]) for one in told] == [
                ("Bad (Timed)", "error", "task_scheduler_executor_error"),
                ("Gone (Timed)", "error", "task_scheduler_executor_error"),
                ("Good (Timed)", "success", "task_scheduler_executor"),
                ("TaskScheduler", "error", "task_scheduler_executor_error"),
            ]
            for one in told:
                assert (
                    f"task-{one['tool_name'].removesuffix(' (Timed)').replace('TaskScheduler', 'None')}"
                    in (one["content"].partition("\n")[0])
                )
            result = told[2]["content"].partition("\n")[2]
            assert len(result) == 500
            assert result.startswith('{"text":"长长')
            assert '"plugin_error":"no","MaidName":"Nova"' in told[0]["content"]
            assert "tool_call" in told[3]["content"]

    run(main())


def test_rich_and_empty_and_huge_results_have_a_content_too(tmp_path: Path) -> None:  # 6.2
    picture = {"type": "image_url", "image_url": {"url": PICTURE}}
    rich = {"content": [picture, {"type": "text", "text": "a cat"}, {"type": "text", "text": "second"}]}
    results = {
        "Rich": ToolResult(structured=rich, parts=tuple(rich["content"])),
        "Picture": ToolResult(structured={"content": [picture]}, parts=(picture,)),
        "Empty": ToolResult(),
        "List": said([1, "二"]),
        "Huge": said({"text": "x y " * 1250}),
        "Many": said({"numbers": list(range(60_000))}),
        "Binary": said({"file": "QUJD" * 500, "shown": f"![x]({PICTURE})"}),
        "Deep": said(json.loads("[" * 90 + "]" * 90)),
    }

    async def main() -> None:
        config = (*CONFIG, "ToolResultMaxChars=2000")
        async with (
            running(tmp_path, UPSTREAM, config=config, sources=[SaidTools(results)]) as server,
            connected(address(server.url)) as client,
        ):
            told = {}
            for name in results:
                await by_hand(server, name, maid="Nova")
                told[name] = (await logged(client))["content"]
        assert told["Rich"] == "a cat"
        assert told["Picture"] == "[Rich Content with types: image_url]"
        assert told["Empty"] == "插件 Empty 执行完毕，但没有返回明确内容。"
        assert told["List"] == [1, "二"]
        for name in ("Huge", "Many"):  # still JSON, with its fields
            assert told[name]["MaidName"] == "Nova"
            assert STAMP.fullmatch(told[name]["timestamp"])
            assert "result cut" in told[name]["original_plugin_output"]
            assert len(told[name]["original_plugin_output"]) < 2200
        assert told["Binary"]["file"].startswith("[sha256 ")
        assert "QUJDQUJD" not in json.dumps(told)
        assert "…" in json.dumps(told["Deep"], ensure_ascii=False)

    run(main())


def test_what_a_tool_prints_of_our_secrets_is_not_told(tmp_path: Path) -> None:  # B5, D30
    code = tmp_path / "Plugin" / "UserAuth" / "code.bin"
    code.parent.mkdir(parents=True)
    code.write_bytes(base64.b64encode("[{<（《【".encode()))
    secrets = {
        "API_Key": "upstream-key",
        "Key": KEY,
        "VCP_Key": SOCKET_KEY,
        "Image_Key": "picture-key",
        "AdminPassword": 'pass"word 1',
        "Upstream_Two_Key": "second-upstream",
        "SearchApiKey": "tvly-0123456789",
    }
    picture = "http://x/pw=picture-key/images/a.png"
    result = {
        "environment": [f"{name}={value}" for name, value in secrets.items()],
        "embedded": json.dumps(secrets),
        "url": picture,
        "code": 111111,
        "said": "the code is 111111, not 21111112",
        "Tool-Password": "whatever",
        KEY: 1,
    }

    async def main() -> None:
        tools = SaidTools(
            {"Leaks": said(result), "Fails": failed(f"bad key {KEY} {SOCKET_KEY} guess-77")},
            {"Leaks": ToolPush("shown", "VCPLog")},
        )
        config = [f"{name}={value}" for name, value in secrets.items() if name not in ("API_Key", "Key")]
        config += ["VCPToolCode=true", "Upstream_Two_URL=http://127.0.0.1:9"]
        calls = call_text("Leaks", tool_password="111111") + call_text("Fails", tool_password="111111")
        async with (
            ScriptedUpstream([say(calls), say("ok")]) as up,
            running(tmp_path, up.base_url, config=config, sources=[tools]) as server,
            connected(address(server.url)) as client,
        ):
            await server.stream("go")
            await client.receive_type("connection_ack")
            notice, push, failure = [await client.receive() for _ in range(3)]
            content = json.loads(notice["data"]["content"])
            assert content["environment"] == [f"{name}=***" for name in secrets]
            assert (content["code"], content["Tool-Password"], content["***"]) == ("***", "***", 1)
            assert content["said"] == "the code is ***, not 21111112"
            assert content["url"] == "http://x/pw=***/images/a.png"
            assert json.loads(content["embedded"]) == dict.fromkeys(secrets, "***")
            assert push["type"] == "shown"
            assert push["data"]["url"] == picture  # a push may show a picture, and this is its address
            assert failure["data"]["source"] == "stream_loop_error"
            told = json.dumps([notice, push, failure], ensure_ascii=False)
            for name, secret in secrets.items():
                assert secret not in told or name == "Image_Key"
            assert "111111," not in told

    run(main())


@pytest.mark.parametrize("target", [None, "DistributedServer", "VCPLog"])
def test_no_plugin_speaks_as_the_server_to_nodes_and_people(
    tmp_path: Path, target: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        types = ("execute_tool", "cancel_tool", "tool_approval_request", "tool_approval_settled", "command")
        order = {"requestId": "r", "toolName": "PowerShellExecutor", "toolArgs": {}}
        tools = SaidTools({kind: said(order) for kind in types}, {kind: ToolPush(kind, target) for kind in types})
        async with (
            ScriptedUpstream([say("".join(map(call_text, types))), say("done")]) as up,
            running(tmp_path, up.base_url, config=CONFIG, sources=[tools]) as server,
            connected(address(server.url, "/vcp-distributed-server")) as node,
            connected(address(server.url)) as reader,
        ):
            await node.send({"type": "report_ip", "data": {"serverName": "n"}})  # it waits for no acknowledgement
            await server.stream("go")
            assert {(await logged(reader))["tool_name"] for _ in types} == set(types)
            server.services.events.publish(Pushed("P", "execute_tool", order, target))
            server.services.events.publish(BackgroundResult("P", "t", order, ToolPush("execute_tool", target)))
            await node.nothing_waits()
            await reader.nothing_waits()
            assert caplog.text.count("this type is the server's own") == len(types) + 2

    run(main())


@MODES
def test_a_push_goes_to_the_clients_that_the_manifest_names(tmp_path: Path, stream: bool) -> None:  # 5.8, 6.3
    pushes = {
        "All": ToolPush(),
        "Info": ToolPush("info", "VCPInfo"),
        "Node": ToolPush("node", "DistributedServer"),
        "User": ToolPush("user", "UserNotification"),
        "Nobody": ToolPush("nobody", "ChromeObserver"),
        "Fails": ToolPush(),
    }

    async def main() -> None:
        results = {name: said({"from": name}) for name in pushes} | {"Fails": failed("no")}
        calls = [call_text(name, archery="true" if name == "Info" else "false") for name in pushes]
        paths = ("/VCPlog", "/vcpinfo", "/vcp-distributed-server", "/vcp-chrome-observer", "/vcp-admin-panel")
        async with (
            ScriptedUpstream([say("".join(calls)), say("done")]) as up,
            running(tmp_path, up.base_url, config=CONFIG, sources=[SaidTools(results, pushes)]) as server,
            connected(address(server.url, paths[0])) as reader,
            connected(address(server.url, paths[1])) as info,
            connected(address(server.url, paths[2])) as node,
            connected(address(server.url, paths[3])) as browser,
            connected(address(server.url, paths[4])) as panel,
        ):
            await server.chat("go", stream=stream)
            await until(server, CallFinished, len(pushes))
            seen: dict[str, list[Any]] = {}
            clients = {"log": reader, "info": info, "node": node, "browser": browser, "panel": panel}
            for name, client in clients.items():
                await (await client.connection.ping())  # everything that was sent before has come
                seen[name] = [await client.receive() for _ in range(len(client.connection.recv_messages.frames))]
            types = {
                name: sorted(one["type"] for one in messages if one["type"] not in ("connection_ack", "vcp_log"))
                for name, messages in seen.items()
            }
            assert types == {
                "log": ["user", "vcp_tool_result_All"],
                "info": ["info", "vcp_tool_result_All"],
                "node": ["node", "vcp_tool_result_All"],
                "browser": [],
                "panel": [],
            }
            (told,) = [one for one in seen["log"] if one["type"] == "vcp_tool_result_All"]
            assert told["data"].keys() == {"from", "timestamp"}
            assert sum(one["type"] == "vcp_log" for one in seen["log"]) == len(pushes)
            before = len(server.events)
            await by_hand(server, "All")  # only calls of the chat push (5.8)
            assert (await logged(reader))["source"] == "human_tool"
            assert len(server.events) > before
            await reader.nothing_waits()

    run(main())


def test_a_call_that_was_put_off_pushes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        tools = SaidTools({"Tell": said("told")}, {"Tell": ToolPush("told")})
        script = [say(call_text("Tell", timely_contact="2099-01-01-10:00")), say("done")]
        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=CONFIG, sources=[tools]) as server,
            connected(address(server.url)) as client,
        ):
            await server.stream("go")
            assert (await logged(client))["content"]["status"] == "scheduled"
            await client.nothing_waits()

    run(main())


def test_a_turn_that_was_interrupted_is_not_told_of_any_more(tmp_path: Path) -> None:  # P70, D27
    async def main() -> None:
        tools = GatedTools("Shot", "Slow")
        told = SaidTools({"Quick": said("before")})
        calls = call_text("Quick") + call_text("Shot", archery="true") + call_text("Slow")
        async with (
            ScriptedUpstream([say(calls)]) as up,
            running(tmp_path, up.base_url, config=CONFIG, sources=[tools, told]) as server,
            connected(address(server.url)) as client,
        ):
            turn = asyncio.ensure_future(server.stream("go", requestId="r-1"))
            assert (await logged(client))["tool_name"] == "Quick"
            await tools.begun["Shot"].wait()
            await tools.begun["Slow"].wait()
            await server.client.post("/v1/interrupt", json={"requestId": "r-1"})
            await turn
            tools.gates["Shot"].set()
            await until(server, CallFinished, 3)
            await until(server, TurnFinished)
            await client.nothing_waits()

    run(main())


def test_results_of_background_plugins_are_pushed_as_they_came(tmp_path: Path) -> None:  # 1.10, 5.8
    async def main() -> None:
        script = 'import json\nprint(json.dumps({"status": "success", "result": {"requestId": "w-1"}}), flush=True)\n'
        for name, push in (("Named", {"enabled": True, "messageType": "video"}), ("Plain", {"enabled": True})):
            write_plugin(tmp_path, name, script, pluginType="asynchronous", webSocketPush=push)
        write_plugin(tmp_path, "Silent", script, pluginType="asynchronous")
        async with (
            ScriptedUpstream([say(call_text("Named")), say("ok")]) as up,
            running(tmp_path, up.base_url, config=CONFIG) as server,
            connected(address(server.url)) as client,
        ):
            await server.stream("go")
            await logged(client)
            first = await client.receive()  # the first answer is pushed as well
            assert (first["type"], first["data"]["requestId"]) == ("video", "w-1")
            body = {"status": "Succeed", "picture": PICTURE, "text": "完成"}
            for plugin in ("Silent", "Named", "Plain"):
                answer = await server.client.post(f"/plugin-callback/{plugin}/w-1", json=body)
                assert answer.status_code == 200, answer.text
            assert await client.receive() == {"type": "video", "data": body}
            assert await client.receive() == {"type": "plugin_callback_notification", "data": body}

    run(main())


INFORMS = """
def create(context):
    class P:
        async def call(self, call, within):
            if call.arguments.get("wrong"):
                context.inform({"no": "type"})
            context.inform({"type": "RAG_RETRIEVAL_DETAILS", "dbName": "x", "results": [{"text": "y"}]})
            context.push("note", {"a": 1}, target_client_type="VCPInfo")
            return "done"
    return P()
"""


def test_plugins_tell_those_who_watch_the_inner_workings(tmp_path: Path) -> None:  # 6.5
    async def main() -> None:
        write_module(tmp_path, "Tells", INFORMS)
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url, "/vcpinfo")) as info,
            connected(address(server.url)) as reader,
        ):
            wrong = await by_hand(server, "Tells", wrong="yes")
            assert "type" in wrong.text
            assert (await by_hand(server, "Tells")).status_code == 200
            assert (await info.receive())["message"] == "WebSocket connection successful for VCPInfo."
            details = {"type": "RAG_RETRIEVAL_DETAILS", "dbName": "x", "results": [{"text": "y"}]}
            assert await info.receive() == details
            assert await info.receive() == {"type": "note", "data": {"a": 1}}
            assert [(await logged(reader))["status"] for _ in range(2)] == ["error", "success"]
            await reader.nothing_waits()

    run(main())


def test_the_admin_panel_is_told_of_a_reload(tmp_path: Path) -> None:  # 5.11
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG, pace=QUICK) as server,
            connected(address(server.url, "/vcp-admin-panel")) as panel,
            connected(address(server.url)) as reader,
        ):
            save(
                tmp_path / "config.env",
                *(tmp_path / "config.env").read_text(encoding="utf-8").splitlines(),
                "VarMood=secret-mood",
            )
            message = await panel.receive()
            assert message.keys() == {"type", "message"}
            assert message["type"] == "plugins-reloaded"
            assert "VarMood" in message["message"]
            assert "secret-mood" not in message["message"]
            await reader.receive()
            await reader.nothing_waits()

    run(main())


def test_a_client_that_does_not_read_is_dropped_and_all_others_get_everything(tmp_path: Path) -> None:
    async def main() -> None:
        tools = SaidTools({"Big": said({"text": "x y " * 45_000})})
        config = (*CONFIG, "SocketQueueMB=1")
        async with (
            running(tmp_path, UPSTREAM, config=config, sources=[tools]) as server,
            connected(address(server.url)) as one,
            connected(address(server.url)) as two,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), limit=1024)
            writer.write(
                f"GET /VCPlog/VCP_Key={SOCKET_KEY} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            await reader.readuntil(b"\r\n\r\n")
            hub, sent = server.services.hub, 0
            assert hub.count(ClientType.VCP_LOG) == 3
            while hub.count(ClientType.VCP_LOG) == 3 and sent < 100:
                await by_hand(server, "Big")
                sent += 1
                for client in (one, two):
                    assert (await logged(client))["status"] == "success"
            assert hub.count(ClientType.VCP_LOG) == 2
            writer.close()

    run(main())


def test_what_nobody_understands_is_ignored_and_the_log_is_not_filled_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # 6.1
    async def main() -> None:
        tools = SaidTools({"Good": said("yes")})
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG, sources=[tools]) as server,
            connected(address(server.url)) as client,
        ):
            nonsense: list[Any] = [
                "",
                "{",
                "[" * 5000,
                '"text"',
                "null",
                "[]",
                "{}",
                {"type": None},
                {"type": ["x"]},
                {"type": "T" * 100_000},
                {"type": "unknown", "data": "\ud800"},
                '{"type":"a","type":"b"}',
                b"\x00\xff",
                '{"type":' + "1" * 10_000 + "}",
                *["[]"] * 20,
            ]
            for message in nonsense:
                await client.send(message)
            await by_hand(server, "Good")
            assert (await logged(client))["status"] == "success"

    run(main())
    lines = [record.getMessage() for record in caplog.records if "ignored" in record.getMessage()]
    assert len(lines) == 10
    assert max(map(len, lines)) < 300


class Untouchable(UserDict[str, Any]):
    """A result that tells how often somebody looked at it."""

    looked_at = 0

    def __iter__(self) -> Any:
        type(self).looked_at += 1
        return super().__iter__()


def test_nothing_is_made_for_nobody_and_once_for_all(tmp_path: Path) -> None:
    async def main() -> None:
        tools = SaidTools({"T": said(Untouchable(a=1))}, {"T": ToolPush("t", "VCPInfo")})
        call, context = ToolCall("c", "T", {}), CallContext("t", Door.AGENT)
        config = [*CONFIG, "Traces=off"]  # else a trace is made of it
        async with running(tmp_path, UPSTREAM, config=config, sources=[tools]) as server:
            await server.services.router.call(call, context)
            assert Untouchable.looked_at == 0
            async with connected(address(server.url)) as one, connected(address(server.url)) as two:
                await server.services.router.call(call, context)
                assert await logged(one) == await logged(two)
                assert Untouchable.looked_at == 1

    run(main())


def test_an_event_that_is_no_json_is_told_to_nobody_and_hurts_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = [
        Pushed("P", "x", {"set"}, None),
        Pushed("P", "x", {1: "a", (2,): "b"}, None),
        Pushed("P", "x", float, "VCPLog"),
        Pushed("P", object(), "x", None),  # type: ignore[arg-type]  # a plugin may pass anything
        BackgroundResult("P", "t", object(), ToolPush()),
        Informed("P", {"type": "x", "data": object()}),
        CallFinished(
            "t", ToolCall("c", "T", {}), CallContext("t", Door.AGENT), None, Outcome.SUCCESS, said({"a": {1}}), 0, 1
        ),
    ]

    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url)) as client,
            connected(address(server.url, "/vcpinfo")) as info,
        ):
            await client.receive()
            await info.receive()
            for event in events:
                server.services.events.publish(event)
            await client.nothing_waits()
            await info.nothing_waits()

    run(main())
    for event in events:
        assert f"{type(event).__name__} is told to no client: TypeError" in caplog.text
    assert caplog.text.count("is told to no client") == len(events)


def test_pictures_of_a_push_that_is_too_long_are_digests_and_what_is_longer_still_is_not_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url)) as client,
        ):
            await client.receive()
            publish = server.services.events.publish
            publish(Pushed("P", "small", PICTURE, None))
            publish(Pushed("P", "large", {"picture": PICTURE * 1200, "text": "a cat"}, None))
            publish(Pushed("P", "text", "a b " * 1_500_000, None))
            publish(Pushed("P", "half", "\ud800", None))
            assert (await client.receive())["data"] == PICTURE
            large = (await client.receive())["data"]
            assert large["text"] == "a cat"
            assert large["picture"].startswith("data:image/png;base64,[sha256 ")
            assert await client.receive() == {"type": "half", "data": "\ud800"}

    run(main())
    assert "is too long and not sent" in caplog.text


def test_the_diary_of_an_interrupted_turn_is_not_told(tmp_path: Path) -> None:  # P70
    async def main() -> None:
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url)) as client,
        ):
            await client.receive()
            server.services.events.publish(DiaryWritten("t", "Nova", "2026-01-05", "f", "m", muted=True))
            await client.nothing_waits()

    run(main())
