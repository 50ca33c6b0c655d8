"""Scheduled calls: what waits, what came of those that ended, running one now, calling one off, making one (spec 7)."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import BadRequestError, NotFoundError, VcpError, both
from app.extend import DeclaredRoute, Json, PageGroup, PanelPage
from app.protocol.json_text import compact_json, strict_json
from app.schedule.folder import TaskFolder
from app.schedule.records import delete_record, is_file_stem, record_text, records
from app.schedule.task import Task
from app.schedule.times import local_time
from app.web.admin.bodies import whole_number
from app.web.panel.frame import URL, Panel, panel_route
from app.web.schedule_task import read_request

PAGE = "schedules"
ROWS = 50
ARGUMENT_CHARS = 160
MAX_TOOLS = 1000
REQUESTOR = "panel"

DONE = {
    "run": ("任务正在运行。", "The task is being run."),
    "cancelled": ("任务已取消。", "The task was called off."),
    "made": ("任务已安排。", "The task is scheduled."),
    "deleted": ("记录已删除。", "The record was deleted."),
}
"""What happened a moment ago, by the word in the address."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that waits; ``tool`` is empty when its file cannot be read any more."""

    name: str
    due: float
    tool: str = ""
    arguments: str = ""
    requestor: str = ""


class SchedulesPart:
    """The pages of scheduled calls."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "timely_contact 定时 延时 timer later VCPTimedContacts"
        return (PanelPage(PAGE, PageGroup.TOOLS, "定时任务", "Scheduled calls", 60, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """Lists and what can be done."""
        return (
            panel_route("/schedules", self._show),
            panel_route("/schedules/waiting", self._rows),
            panel_route("/schedules/ended", self._ended),
            panel_route("/schedules/ended/{name}", self._record),
            panel_route("/schedules/ended/{name}", self._delete, "POST"),
            panel_route("/schedules/run", self._run, "POST"),
            panel_route("/schedules/cancel", self._cancel, "POST"),
            panel_route("/schedules/new", self._new),
            panel_route("/schedules/new", self._make, "POST"),
        )

    def _folder(self) -> TaskFolder:
        return TaskFolder(self._panel.services.in_force.home)

    # ------------------------------------------------------------------ what waits

    async def _show(self, request: Request) -> Response:
        return self._panel.page(
            request,
            "schedules.html",
            PAGE,
            done=DONE.get(request.query_params.get("done", "")),
            **await self._waiting(request),
        )

    async def _rows(self, request: Request) -> Response:
        return self._panel.fragment(request, "schedules_waiting.html", **await self._waiting(request))

    async def _waiting(self, request: Request) -> Mapping[str, Any]:
        schedule = self._panel.services.schedule
        moments = schedule.waiting()
        pages = max(1, math.ceil(len(moments) / ROWS))
        page = min(whole_number(request, "page"), pages)
        shown = list(moments.items())[(page - 1) * ROWS : page * ROWS]
        return {
            "tasks": await asyncio.to_thread(self._read, shown),
            "running": list(schedule.running())[:ROWS],
            "unreadable": list(schedule.unreadable().items())[:ROWS],
            "trouble": schedule.health(),
            "total": len(moments),
            "page_number": page,
            "pages": pages,
            "now": time.time(),
        }

    def _read(self, moments: Sequence[tuple[str, float]]) -> Sequence[Waiting]:
        folder, zone = self._folder(), self._panel.services.config.zone
        found = []
        for name, due in moments:
            try:
                task = folder.read(name, zone)
            except (OSError, ValueError):
                found.append(Waiting(name, due))
                continue
            arguments = compact_json(dict(task.arguments))
            shown = arguments[:ARGUMENT_CHARS] + ("…" if len(arguments) > ARGUMENT_CHARS else "")
            found.append(Waiting(name, task.due, task.tool, shown, task.requestor))
        return found

    async def _run(self, request: Request) -> Response:
        name = await self._name(request)
        if not self._panel.services.schedule.run_now(name):
            raise _gone(name)
        return RedirectResponse(f"{URL}/schedules?done=run", 303)

    async def _cancel(self, request: Request) -> Response:
        name = await self._name(request)
        folder, schedule = self._folder(), self._panel.services.schedule
        if not await asyncio.to_thread(folder.waits, name):
            raise _gone(name)
        await asyncio.to_thread(folder.remove, name)
        schedule.look_again()
        schedule.forget(name)
        return RedirectResponse(f"{URL}/schedules?done=cancelled", 303)

    async def _name(self, request: Request) -> str:
        name = (await self._panel.form(request)).get("name", "")
        if not is_file_stem(name):
            raise BadRequestError(both("任务名称无效", "that is no name of a task"))
        return name

    # ------------------------------------------------------------------ what has ended

    async def _ended(self, request: Request) -> Response:
        page = whole_number(request, "page")
        total, found = await asyncio.to_thread(records, self._folder(), (page - 1) * ROWS, ROWS)
        pages = max(1, math.ceil(total / ROWS))
        return self._panel.page(
            request,
            "schedules_ended.html",
            PAGE,
            records=found,
            total=total,
            page_number=page,
            pages=pages,
            days=self._panel.services.settings.schedule_keep_days,
            done=DONE.get(request.query_params.get("done", "")),
        )

    async def _record(self, request: Request) -> Response:
        name = request.path_params["name"]
        text = await asyncio.to_thread(record_text, self._folder(), name)
        return self._panel.page(request, "schedules_record.html", PAGE, name=name, text=text)

    async def _delete(self, request: Request) -> Response:
        await asyncio.to_thread(delete_record, self._folder(), request.path_params["name"])
        return RedirectResponse(f"{URL}/schedules/ended?done=deleted", 303)

    # ------------------------------------------------------------------ a new one

    async def _new(self, request: Request) -> Response:
        return self._form(request, {"tool": request.query_params.get("tool", "")[:200], "arguments": "{}"}, "")

    def _form(self, request: Request, values: Mapping[str, str], fault: str, status: int = 200) -> Response:
        services = self._panel.services
        names = sorted(services.router.specs())[:MAX_TOOLS]
        zone = services.config.zone
        return self._panel.page(
            request,
            "schedules_new.html",
            PAGE,
            status=status,
            values=values,
            fault=fault,
            tools=names,
            zone=str(zone),
            now=local_time(time.time(), zone)[:16],
        )

    async def _make(self, request: Request) -> Response:
        form = await self._panel.form(request)
        try:
            await self._panel.services.intake.take(self._task(form))
        except VcpError as error:
            return self._form(request, form, error.message, error.status)
        return RedirectResponse(f"{URL}/schedules?done=made", 303)

    def _task(self, form: Mapping[str, str]) -> Task:
        services = self._panel.services
        tool = form.get("tool", "").strip()
        if services.router.find_spec(tool) is None:
            raise BadRequestError(both(f"没有工具 {tool[:80]!r}", f"there is no tool {tool[:80]!r}"))
        now = time.time()
        body: Json = {
            "schedule_time": form.get("when", "").strip(),
            "task_id": form.get("id", "").strip() or f"panel-{int(now)}-{secrets.token_hex(3)}",
            "tool_call": {"tool_name": tool, "arguments": _arguments(form.get("arguments", ""))},
            "requestor": REQUESTOR,
        }
        return read_request(body, now, services.config.zone)


def _arguments(text: str) -> Mapping[str, Json]:
    try:
        value = strict_json(text.strip() or "{}")
    except (ValueError, RecursionError) as error:
        where = f": {error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadRequestError(both(f"参数不是 JSON{where}", f"the arguments are no JSON{where}")) from None
    if not isinstance(value, dict):
        raise BadRequestError(both("参数应为 JSON 对象", "the arguments are a JSON object"))
    return value


def _gone(name: str) -> NotFoundError:
    return NotFoundError(both(f"任务 {name[:80]!r} 已不在等待", f"the task {name[:80]!r} does not wait any more"))
