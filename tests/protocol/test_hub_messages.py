"""What WebSocket clients get, to the byte: the literals of spec 1.10, 4.11, 5.8, 6.1 - 6.7, 7.1 and D66 (D20)."""

from __future__ import annotations

import pytest

from app.extend import Door
from app.hub.clients import ClientType, encoded
from app.hub.hub import PATHS
from app.protocol import background_results, hub_messages, markers


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            hub_messages.connection_ack("VCPLog"),
            '{"type":"connection_ack","message":"WebSocket connection successful for VCPLog."}',
        ),
        (
            hub_messages.connection_ack("VCPInfo"),
            '{"type":"connection_ack","message":"WebSocket connection successful for VCPInfo."}',
        ),
        (
            hub_messages.node_acknowledged("dist-c", "c"),
            '{"type":"connection_ack","message":"WebSocket connection successful for DistributedServer.",'
            '"data":{"serverId":"dist-c","clientId":"c"}}',
        ),
        (
            hub_messages.vcp_log("工具", "{}", "stream_loop", ok=True),
            '{"type":"vcp_log","data":{"tool_name":"工具","status":"success","content":"{}","source":"stream_loop"}}',
        ),
        (
            hub_messages.vcp_log("T", "x", "stream_loop_error", ok=False),
            '{"type":"vcp_log","data":{"tool_name":"T","status":"error","content":"x","source":"stream_loop_error"}}',
        ),
        (
            hub_messages.daily_note_created("Nova", "2026-01-05", "/d/a.txt", "m"),
            '{"type":"daily_note_created","data":{"maidName":"Nova","dateString":"2026-01-05",'
            '"filePath":"/d/a.txt","status":"success","message":"m"}}',
        ),
        (hub_messages.push("video", {"a": 1}), '{"type":"video","data":{"a":1}}'),
        (hub_messages.plugins_reloaded("m"), '{"type":"plugins-reloaded","message":"m"}'),
        (hub_messages.heartbeat_ack(5), '{"type":"heartbeat_ack","timestamp":5}'),
        (
            hub_messages.command_failed("r", hub_messages.NO_BROWSER),
            '{"type":"command_result","data":{"requestId":"r","status":"error",'
            '"error":"No active Chrome browser extension found."}}',
        ),
    ],
)
def test_messages_are_compact_json_with_their_fields_in_order(message: hub_messages.HubMessage, text: str) -> None:
    assert encoded(message).decode() == text


def test_words_of_their_own() -> None:
    assert hub_messages.tool_push_type("Echo") == "vcp_tool_result_Echo"
    assert hub_messages.CALLBACK_NOTIFICATION == "plugin_callback_notification"
    assert hub_messages.AUTH_REFUSED == "工具调用验证失败：'tool_password'不正确或缺失。"
    assert hub_messages.timed_tool("Echo") == "Echo (Timed)"
    assert hub_messages.TASK_SCHEDULER == "TaskScheduler"
    assert encoded(background_results.CALLBACK_DONE) == (
        b'{"status":"success","message":"Callback received and processed"}'
    )
    assert encoded(background_results.CALLBACK_NO_PLUGIN) == (
        b'{"status":"error","message":"Plugin not found, but callback noted."}'
    )


def test_paths_and_types_of_clients() -> None:
    assert {kind.value: path for kind, path in PATHS.items()} == {
        "VCPLog": "/VCPlog",
        "VCPInfo": "/vcpinfo",
        "DistributedServer": "/vcp-distributed-server",
        "ChromeObserver": "/vcp-chrome-observer",
        "ChromeControl": "/vcp-chrome-control",
        "AdminPanel": "/vcp-admin-panel",
    }
    assert ClientType("DistributedServer") is ClientType.NODE


def test_sources() -> None:
    spoken = {Door.STREAM: "stream_loop", Door.NON_STREAM: "non_stream_loop", Door.HUMAN_TOOL: "human_tool"}
    spoken |= {Door.AGENT: "agent", Door.TOOL_SOCKET: "tool_socket"}
    assert {door: door.value for door in spoken} == spoken
    endings = (hub_messages.ERROR, hub_messages.NOT_FOUND, hub_messages.AUTH_ERROR, hub_messages.ARCHERY)
    assert endings == ("_error", "_not_found", "_auth_error", "_archery")
    assert hub_messages.SCHEDULE_SOURCE == "task_scheduler_executor"


def test_words_of_nodes() -> None:
    assert markers.NODE_DISPLAY == "[云端] "
    assert markers.NODE_FILE_TOOL == "internal_request_file"
    assert markers.node_not_connected("dist-a") == "Distributed server dist-a is not connected or ready."
    told = {
        seconds: markers.node_timed_out("Echo", "dist-a", seconds) for seconds in (0.15, 1.5, 60.0, 1234.567, 86400.0)
    }
    assert told == {
        seconds: f"Request to distributed tool Echo on server dist-a timed out after {text}s."
        for seconds, text in ((0.15, "0.15"), (1.5, "1.5"), (60.0, "60"), (1234.567, "1234.567"), (86400.0, "86400"))
    }
