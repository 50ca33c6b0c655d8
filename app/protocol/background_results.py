"""Results of background plugins: placeholder, file name, wire literals (vcp-core 1.10, 3.6)."""

from __future__ import annotations

import re
from typing import Any

from app.protocol.json_text import compact_json

PLACEHOLDER = re.compile(
    r"(?=\{{2,4}VCP_ASYNC_RESULT::([A-Za-z0-9_.-]+)::([A-Za-z0-9_-]+)\})"
    r"(\{)?(\{)?\{\{VCP_ASYNC_RESULT::\1::\2\}\}(?(4)\})(?(3)\})"
)
"""The placeholder in two, three or four braces, as many on either side; groups 1 and 2 are plugin and task id."""

MARK = "VCP_ASYNC_RESULT::"
"""A text without it holds no placeholder."""

TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""A task id that a placeholder can name."""

CALLBACK_DONE = {"status": "success", "message": "Callback received and processed"}
CALLBACK_NO_PLUGIN = {"status": "error", "message": "Plugin not found, but callback noted."}

FILE_NAME_BYTES = 200
"""Longest file name; below the 255 of common file systems, so that a temporary name fits beside it."""

_FORBIDDEN = re.compile(r'[/\\\x00-\x1f\x7f:*?"<>|\ud800-\udfff]|^\.|[. ]$')


def placeholder(plugin: str, task: str) -> str:
    """The placeholder of a task as prompts write it."""
    return "{{VCP_ASYNC_RESULT::" + plugin + "::" + task + "}}"


def result_file(plugin: str, task: str) -> str | None:
    """The name of a task's file; None when it would be no plain file name on every system (B3).

    Refused are separators, NUL and other control characters, what Windows reserves, a dot at either end, and names that
    are too long.
    """
    if not plugin or not task or _FORBIDDEN.search(plugin) or _FORBIDDEN.search(task):
        return None
    name = f"{plugin}-{task}.json"
    return name if len(name.encode()) <= FILE_NAME_BYTES else None


def result_text(plugin: str, task: str, body: Any) -> str:
    """What stands in place of the placeholder once there is a result (table of 3.6)."""
    fields = body if isinstance(body, dict) else {}
    if _truthy(message := fields.get("message")):
        return _plain(message)
    head = f"任务 {plugin} (ID: {task})"
    if fields.get("status") == "Succeed":
        return f"{head} 已成功完成。详情: {compact_json(_first(fields, 'data', 'result'))}"
    if fields.get("status") == "Failed":
        reason = fields.get("reason")
        why = _plain(reason) if _truthy(reason) else compact_json(_first(fields, "data", "error"))
        return f"{head} 处理失败。原因: {why}"
    return f"[{head} 已完成]"


def result_pending(plugin: str, task: str) -> str:
    """Stands in while there is no result (3.6)."""
    return f"[任务 {plugin} (ID: {task}) 结果待更新...]"


def result_unreadable(plugin: str, task: str) -> str:
    """Stands in for a result that cannot be read (3.6)."""
    return f"[获取任务 {plugin} (ID: {task}) 结果时出错]"


def _first(fields: dict[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if _truthy(fields.get(name))), fields)


def _truthy(value: Any) -> bool:
    """As JavaScript has it: lists and objects are, also without anything in them."""
    return isinstance(value, list | dict) or bool(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)
