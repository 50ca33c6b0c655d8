"""The messages that WebSocket clients get, and the words in them (spec vcp-core 4.11, 5.8, 5.11, 6.2, 6.5, 6.6).

Clients look at types, fields and sources: they are kept to the byte (D20).
"""

from __future__ import annotations

from typing import Any

HubMessage = dict[str, Any]
"""One JSON object of the wire; ``type`` says what it is."""

# --- all clients of a channel (6.2, 6.5) -----------------------------------------------------------------------------

CONNECTION_ACK = "connection_ack"
VCP_LOG = "vcp_log"
DAILY_NOTE_CREATED = "daily_note_created"
PLUGINS_RELOADED = "plugins-reloaded"
CALLBACK_NOTIFICATION = "plugin_callback_notification"
USER_NOTIFICATION = "UserNotification"
"""A target of pushes that no client is of: for people, who read the log (5.8)."""

NOT_FOR_PLUGINS = frozenset(
    {"execute_tool", "cancel_tool", "tool_approval_request", "tool_approval_response", "tool_approval_settled"}
    | {CONNECTION_ACK, "command", "command_result"}
)
"""Types that make nodes, people or browsers do something: the server's own words, which no plugin may put into its
mouth. A push may reach nodes, and what it says may come from another node.
"""

AUTH_REFUSED = "工具调用验证失败：'tool_password'不正确或缺失。"

# --- sources of vcp_log (6.2, D66) -----------------------------------------------------------------------------------

SCHEDULE_SOURCE = "task_scheduler_executor"
ERROR = "_error"
NOT_FOUND = "_not_found"
AUTH_ERROR = "_auth_error"
ARCHERY = "_archery"

TASK_SCHEDULER = "TaskScheduler"
"""The tool of a task that names none (7.1)."""

REPLAYED = "replayed"
RECORDED_AT = "recordedAt"
"""Fields of a message that comes late, because its device was away (6.7)."""

# --- browsers (6.6) --------------------------------------------------------------------------------------------------

HEARTBEAT = "heartbeat"
COMMAND = "command"
COMMAND_RESULT = "command_result"
NO_BROWSER = "No active Chrome browser extension found."


def connection_ack(client_type: str) -> HubMessage:
    """What a client of the log or of the inner workings gets first (6.2, 6.5)."""
    return {"type": CONNECTION_ACK, "message": f"WebSocket connection successful for {client_type}."}


def node_acknowledged(server_id: str, client_id: str) -> HubMessage:
    """What a node is told that waits for it: it is connected, and its ids. Later versions tell all nodes (D16)."""
    told = connection_ack("DistributedServer")
    return {**told, "data": {"serverId": server_id, "clientId": client_id}}


def vcp_log(tool: str, content: str, source: str, *, ok: bool) -> HubMessage:
    """A tool call that has ended (6.2)."""
    status = "success" if ok else "error"
    return {"type": VCP_LOG, "data": {"tool_name": tool, "status": status, "content": content, "source": source}}


def daily_note_created(maid: str, date: str, file_path: str, message: str) -> HubMessage:
    """A diary block of a reply was stored (4.11)."""
    data = {"maidName": maid, "dateString": date, "filePath": file_path, "status": "success", "message": message}
    return {"type": DAILY_NOTE_CREATED, "data": data}


def push(message_type: str, data: Any) -> HubMessage:
    """What a plugin tells clients (1.10, 5.8)."""
    return {"type": message_type, "data": data}


def tool_push_type(tool: str) -> str:
    """The type of a tool's push when its manifest names none (5.8)."""
    return f"vcp_tool_result_{tool}"


def timed_tool(tool: str) -> str:
    """How a tool is called in the log of a scheduled call (7.1)."""
    return f"{tool} (Timed)"


def plugins_reloaded(message: str) -> HubMessage:
    """Changed files are in force (5.11)."""
    return {"type": PLUGINS_RELOADED, "message": message}


def heartbeat_ack(millis: int) -> HubMessage:
    """The answer to a browser's heartbeat (6.6)."""
    return {"type": "heartbeat_ack", "timestamp": millis}


def command_failed(request_id: Any, error: str) -> HubMessage:
    """A browser command that nobody carries out (6.6)."""
    return {"type": COMMAND_RESULT, "data": {"requestId": request_id, "status": "error", "error": error}}
