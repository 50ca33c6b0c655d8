"""Traces as JSON, for the panel and for scripts: ``/admin_api/panel/traces`` (docs/panel.md)."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app.errors import BadRequestError, both
from app.extend import DeclaredRoute
from app.observe.traces.report import report_of
from app.observe.traces.store import MAX_PAGE, Wanted
from app.services import Services
from app.services.replays import Replays
from app.web.admin.bodies import admin_route, json_object, text_of
from app.web.errors import JsonResponse
from app.web.gate import CLIENT_IP

PREFIX = "/panel/traces"
BODY_LIMIT = 64 * 1024
MAX_FIELD = 300
DEFAULT_PAGE = 50
OUTCOMES = ("success", "error", "cancelled")
KINDS = ("turn", "call")


class TracesRoutes:
    """The ``RouteSource`` of traces."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._replays = Replays(services)

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return (
            admin_route(PREFIX, self._list),
            admin_route(PREFIX, self._delete_all, "DELETE"),
            admin_route(f"{PREFIX}/{{id}}", self._one),
            admin_route(f"{PREFIX}/{{id}}", self._delete, "DELETE"),
            admin_route(f"{PREFIX}/{{id}}/report", self._report),
            admin_route(f"{PREFIX}/{{id}}/replay", self._replay, "POST"),
        )

    async def _list(self, request: Request) -> Response:
        traces = self._services.traces
        page = await traces.page(wanted_of(request.query_params))
        return JsonResponse(
            {
                "detail": traces.detail,
                "dropped": traces.dropped,
                "running": [asdict(row) for row in await traces.running()],
                "traces": [asdict(row) for row in page.rows],
                "next": None if page.next is None else written_cursor(page.next),
                "searchedTo": page.searched_to,
            }
        )

    async def _one(self, request: Request) -> Response:
        document = await self._services.traces.one(request.path_params["id"])
        headers = {}
        if request.query_params.get("download"):
            headers["Content-Disposition"] = f'attachment; filename="{_file_name(document["id"])}.json"'
        return JsonResponse(document, 200, headers)

    async def _report(self, request: Request) -> Response:
        document = await self._services.traces.one(request.path_params["id"])
        return PlainTextResponse(report_of(document))

    async def _delete(self, request: Request) -> Response:
        return JsonResponse({"deleted": await self._services.traces.delete(request.path_params["id"])})

    async def _delete_all(self, _request: Request) -> Response:
        return JsonResponse({"deleted": await self._services.traces.delete()})

    async def _replay(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        tools = body.get("tools", False)
        if not isinstance(tools, bool):
            raise BadRequestError(both("tools 应为布尔值", "tools is true or false"))
        address = request.scope[CLIENT_IP]
        id = request.path_params["id"]
        new = await self._replays.begin(id, text_of(body, "model"), tools=tools, client_ip=address)
        return JsonResponse({"id": new})


def wanted_of(query: Mapping[str, str]) -> Wanted:
    """Which traces a query asks for; raises BadRequestError.

    Fields: ``q`` words, ``outcome``, ``kind``, ``model``, ``agent``, ``tool``, ``since`` and ``until`` (seconds since
    the epoch), ``after`` (a cursor), ``limit``.
    """
    limit = query.get("limit", "")
    if limit and not (limit.isascii() and limit.isdigit() and len(limit) < 6):
        raise BadRequestError(both("limit 应为整数", "limit is a whole number"))
    return Wanted(
        words=query.get("q", "").strip()[:MAX_FIELD],
        outcome=_one_of(query, "outcome", OUTCOMES),
        kind=_one_of(query, "kind", KINDS),
        model=query.get("model", "")[:MAX_FIELD],
        agent=query.get("agent", "")[:MAX_FIELD],
        tool=query.get("tool", "")[:MAX_FIELD],
        since=_moment(query, "since"),
        until=_moment(query, "until"),
        after=read_cursor(query.get("after", "")),
        limit=min(int(limit), MAX_PAGE) if limit else DEFAULT_PAGE,
    )


def written_cursor(place: tuple[float, int]) -> str:
    """A place in the list as a word for an address."""
    return base64.urlsafe_b64encode(json.dumps(place).encode("ascii")).decode("ascii").rstrip("=")


def read_cursor(text: str) -> tuple[float, int] | None:
    """The place again; None for no text; raises BadRequestError."""
    if not text:
        return None
    try:
        started, seq = json.loads(base64.urlsafe_b64decode(text[:200] + "=" * (-len(text[:200]) % 4)))
        place = float(started), int(seq)
    except (ValueError, TypeError, binascii.Error, OverflowError):
        raise BadRequestError(both("after 无效", "after is none of our cursors")) from None
    if not math.isfinite(place[0]) or abs(place[1]) >= 2**63:
        raise BadRequestError(both("after 无效", "after is none of our cursors"))
    return place


def _one_of(query: Mapping[str, str], name: str, words: Sequence[str]) -> str:
    value = query.get(name, "")
    if value and value not in words:
        choices = ", ".join(words)
        raise BadRequestError(both(f"{name} 只能是 {choices}", f"{name} is one of {choices}"))
    return value


def _moment(query: Mapping[str, str], name: str) -> float | None:
    value = query.get(name, "")
    if not value:
        return None
    try:
        moment = float(value)
    except ValueError:
        moment = math.nan
    if not math.isfinite(moment):
        raise BadRequestError(both(f"{name} 应为秒数", f"{name} is a number of seconds since the epoch"))
    return moment


def _file_name(id: str) -> str:
    return "".join(mark if mark.isascii() and (mark.isalnum() or mark in "-_.") else "_" for mark in id)[:100]
