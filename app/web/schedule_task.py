"""``POST /v1/schedule_task``: put a tool call off (spec 1.9)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from datetime import tzinfo

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.chat.payload import loads_request
from app.errors import BadRequestError, VcpError, both
from app.extend import Json
from app.protocol.markers import TASK_SCHEDULED
from app.schedule.task import Task, check_id, read_call
from app.schedule.times import local_time, parse_time, spoken_time
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.call_depth import call_depth
from app.web.errors import JsonResponse
from app.web.openapi import described

log = logging.getLogger(__name__)

REQUESTOR = "POST /v1/schedule_task"
"""Who wanted the task, where the request does not say."""

MAX_REQUESTOR = 200

_DESCRIPTION = described(
    "application/json",
    {
        "type": "object",
        "required": ["schedule_time", "task_id", "tool_call"],
        "properties": {
            "schedule_time": {"type": ["string", "number"], "description": "ISO 8601, or milliseconds since 1970."},
            "task_id": {"type": "string"},
            "tool_call": {
                "type": "object",
                "required": ["tool_name"],
                "properties": {"tool_name": {"type": "string"}, "arguments": {"type": "object"}},
            },
        },
    },
    "The task was stored",
    (400, 408, 413, 415, 500),
)


def read_request(body: Json, now: float, zone: tzinfo) -> Task:
    """The task that a request describes; BadRequestError with the reason (spec 1.9), checked in the order of its rows.

    A time without an offset is one in ``zone``.
    """
    fields = body if isinstance(body, Mapping) else {}
    if any(fields.get(name) in (None, "") for name in ("schedule_time", "task_id", "tool_call")):
        raise BadRequestError(
            both(
                "无效的请求：缺少 schedule_time、task_id 或 tool_call",
                "invalid request: schedule_time, task_id and tool_call are all needed",
            )
        )
    tool, arguments = read_call(fields["tool_call"])
    if not tool:
        raise BadRequestError(
            both(
                "无效的请求：tool_call 缺少 tool_name，或 arguments 不是对象",
                "invalid request: tool_call needs a tool_name, and its arguments are an object",
            )
        )
    try:
        due = parse_time(fields["schedule_time"], zone)
    except ValueError:
        raise BadRequestError(
            both(
                "schedule_time 格式无效，请使用 ISO 8601，例如 2026-01-05T08:00:00+08:00",
                "schedule_time cannot be read; write ISO 8601, such as 2026-01-05T08:00:00+08:00",
            )
        ) from None
    if due <= now:
        raise BadRequestError(
            both(
                f"schedule_time 不能是过去的时间；现在是 {spoken_time(now, zone)}",
                f"schedule_time must not be in the past; it is {spoken_time(now, zone)} now",
            )
        )
    wanted_by = fields.get("requestor")
    return Task(
        id=check_id(fields["task_id"]),
        due=math.floor(due),
        tool=tool,
        arguments=arguments,
        requestor=wanted_by[:MAX_REQUESTOR] if isinstance(wanted_by, str) and wanted_by else REQUESTOR,
    )


def schedule_task_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()

    @router.post("/v1/schedule_task", summary="Put a tool call off", openapi_extra=_DESCRIPTION)
    async def schedule_task(request: Request) -> Response:
        try:
            call_depth(request.headers, services.settings)  # a chain that is too long puts nothing off either
            data = await read_body(request.scope, request.receive, services.settings.tool_body_limit_mb * 1024 * 1024)
            task = read_request(_json(data), time.time(), services.config.zone)
            await services.intake.take(task)
        except ClientGoneError:
            return Response(status_code=400)
        except VcpError as error:
            return _refused(error.message, error.status)
        except ValueError as error:
            return _refused(f"{both('参数不是 JSON', 'the arguments are no JSON')}: {error}", 400)
        except OSError as error:
            log.error("a task could not be stored: %s", error)
            return _refused(f"{both('任务无法保存', 'the task cannot be stored')}: {error.strerror or error}", 500)
        details = {"taskId": task.id, "scheduledTime": local_time(task.due, services.config.zone)}
        return JsonResponse({"status": "success", "message": TASK_SCHEDULED, "details": details})

    return router


def _json(data: bytes) -> Json:
    try:
        return loads_request(data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{both('请求体不是 JSON', 'the request body is not JSON')}: {error}") from None


def _refused(message: str, status: int) -> JsonResponse:
    return JsonResponse({"status": "error", "error": message}, status)
