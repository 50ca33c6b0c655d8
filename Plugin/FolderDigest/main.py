"""FolderDigest: answers at once with a task id, digests a folder, then calls back (vcp-core 5.6 asynchronous, 1.10).

One JSON object on stdin, the first answer on stdout, the result to ``CALLBACK_BASE_URL``. Exit code 1 on errors.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from folder_digest import report
from folder_digest.callback import call_back
from folder_digest.failure import DigestError
from folder_digest.request import MAX_INPUT_BYTES, Request, read_request
from folder_digest.survey import survey


def main() -> int:
    """Run one call; returns the exit code."""
    environ = os.environ
    plugin = environ.get("PLUGIN_NAME_FOR_CALLBACK") or "FolderDigest"
    try:
        base = environ.get("CALLBACK_BASE_URL", "")
        if not base:
            raise DigestError("缺少 CALLBACK_BASE_URL", "CALLBACK_BASE_URL is missing; only the server can run this")
        request = read_request(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1), environ)
    except DigestError as error:
        answer({"status": "error", "error": str(error)})
        return 1
    task = f"digest-{secrets.token_hex(8)}"
    answer({"status": "success", "result": accepted(plugin, task, request)})
    try:
        call_back(base, plugin, task, outcome(plugin, task, request, zone(environ)))
    except DigestError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def accepted(plugin: str, task: str, request: Request) -> dict[str, str]:
    """The first answer: what the model repeats stands for the result from then on."""
    shown = "{{VCP_ASYNC_RESULT::" + plugin + "::" + task + "}}"
    return {
        "task_id": task,
        "placeholder": shown,
        "message": (
            f"目录 {request.shown} 的摘要任务已提交。请在回复中原样写出占位符 {shown}，结果完成后会自动显示在那里。 / "
            f"The digest of {request.shown} has been started. Write the placeholder {shown} into your reply as it is; "
            "the result will stand there as soon as it is ready."
        ),
    }


def outcome(plugin: str, task: str, request: Request, where: tzinfo) -> dict[str, Any]:
    """The body of the callback."""
    known = {"requestId": task, "pluginName": plugin, "folder": request.shown}
    try:
        found = survey(request.folder)
    except (DigestError, OSError, MemoryError) as error:
        return {**known, "status": "Failed", "reason": str(error) or type(error).__name__}
    return {
        **known,
        "status": "Succeed",
        "message": report.text(request.shown, found, request.top, where),
        "data": report.data(found, request.top, where),
    }


def zone(environ: Mapping[str, str]) -> tzinfo:
    """The installation's zone, or UTC when it names none that is known here."""
    try:
        return ZoneInfo(environ.get("DEFAULT_TIMEZONE", "").strip() or "Asia/Shanghai")
    except (OSError, ValueError):
        return UTC


def answer(fields: Mapping[str, Any]) -> None:
    """Print the first answer in UTF-8, whatever the system's code page is (P44)."""
    sys.stdout.buffer.write(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
