"""Traces: the list of requests, each as a waterfall with its prompt, its calls, what memory gave, and a replay."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import BadRequestError, NotFoundError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.observe.traces.repeat import curl_of, request_of
from app.observe.traces.report import report_of
from app.observe.traces.rows import TraceRow, row_of
from app.observe.traces.store import Wanted
from app.protocol.json_text import pretty_json
from app.services.replays import Replays
from app.web.admin.traces import wanted_of, written_cursor
from app.web.gate import CLIENT_IP
from app.web.panel.frame import URL, Panel, panel_route
from app.web.panel.prompt_view import after_view, before_view
from app.web.panel.waterfall import span, waterfall, where

MAX_SHOWN = 20_000
"""Characters of an answer, of arguments or of a result that a page shows; the export has all that is kept."""

NOTHING_FOLLOWS = 286
"""The status by which htmx asks no more."""

MAX_CALLS = 100
MAX_RECALLS = 50
MAX_HITS = 30
MAX_HIT_CHARS = 600
MAX_PAGE_CHARS = 120_000
"""Characters of answers, arguments and results on one page."""

MAX_CURL_CHARS = 200_000
SPANS = (("1", 3600), ("24", 86_400), ("168", 604_800))
"""Choices of how far the list goes back: hours, seconds."""


class TracesPart:
    """The pages of traces."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._replays = Replays(panel.services)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "trace waterfall request history replay 追踪 请求 瀑布 重放 历史 token"
        return (PanelPage("traces", PageGroup.CHAT, "追踪", "Traces", 50, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The list, single traces, their pieces, and what changes something."""
        return (
            panel_route("/traces", self._list),
            panel_route("/traces/running", self._running),
            panel_route("/traces/delete", self._delete_all, "POST"),
            panel_route("/trace/{id}", self._one),
            panel_route("/trace/{id}/waterfall", self._waterfall),
            panel_route("/trace/{id}/prompt", self._prompt),
            panel_route("/trace/{id}/curl", self._curl),
            panel_route("/trace/{id}/replay", self._replay, "POST"),
            panel_route("/trace/{id}/delete", self._delete, "POST"),
        )

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Traces whose question, answer, tools or id hold these words."""
        if len(words.strip()) < 2:
            return ()
        page = await self._panel.services.traces.page(Wanted(words=words[:200], limit=min(limit, 5)))
        return [_hit(row) for row in page.rows]

    async def _list(self, request: Request) -> Response:
        traces = self._panel.services.traces
        query = {name: value for name, value in request.query_params.items() if value}
        span = dict(SPANS).get(query.get("hours", ""))
        if span is not None:
            query["since"] = str(time.time() - span)
        page = await traces.page(wanted_of(query))
        kept = {name: value for name, value in request.query_params.items() if value and name != "after"}
        older = None if page.next is None else f"?{urlencode({**kept, 'after': written_cursor(page.next)})}"
        newest = f"?{urlencode(kept)}" if query.get("after") else None
        return self._panel.page(
            request,
            "traces.html",
            "traces",
            rows=page.rows,
            running=() if query.get("after") else await traces.running(),
            older=older,
            newest=newest,
            searched_to=page.searched_to,
            choices=await traces.choices(),
            query=query,
            named=_named,
            filtered=bool(kept),
            detail=traces.detail,
            settings=self._panel.services.settings,
            dropped=traces.dropped,
        )

    async def _running(self, request: Request) -> Response:
        return self._panel.fragment(request, "traces_running.html", running=await self._panel.services.traces.running())

    async def _one(self, request: Request) -> Response:
        traces = self._panel.services.traces
        document = await traces.one(request.path_params["id"])
        compared = await self._compared(document)
        related = await traces.related(document["id"])
        return self._panel.page(
            request,
            "trace.html",
            "traces",
            trace=document,
            address=_address(document["id"]),
            fall=waterfall(document),
            span=span,
            title=row_of(document).title,
            report=report_of(document),
            compared=compared,
            related=[row for row in related if row.id != document["id"]],
            models=(await traces.choices()).models,
            **_shown(document),
        )

    async def _compared(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What this one repeats, if it is a replay and that is still there."""
        if not document["replay_of"]:
            return None
        try:
            return await self._panel.services.traces.one(document["replay_of"])
        except NotFoundError:
            return None

    async def _waterfall(self, request: Request) -> Response:
        try:
            document = await self._panel.services.traces.one(request.path_params["id"])
        except NotFoundError:
            return Response(status_code=NOTHING_FOLLOWS)
        answer = self._panel.fragment(
            request,
            "trace_waterfall.html",
            trace=document,
            fall=waterfall(document),
            span=span,
            address=_address(document["id"]),
        )
        if document["outcome"] != "running":  # all the rest of the page is new now
            answer.headers["HX-Refresh"] = "true"
        return answer

    async def _prompt(self, request: Request) -> Response:
        document = await self._panel.services.traces.one(request.path_params["id"])
        side = request.query_params.get("side", "after")
        prompt = document["prompt"]
        view = None if not prompt else before_view(prompt) if side == "before" else after_view(prompt)
        fields = pretty_json(prompt["request"])[:MAX_SHOWN] if prompt else ""
        return self._panel.fragment(
            request,
            "trace_prompt.html",
            trace=document,
            view=view,
            side=side,
            fields=fields,
            address=_address(document["id"]),
        )

    async def _curl(self, request: Request) -> Response:
        services = self._panel.services
        again = request_of(await services.traces.one(request.path_params["id"]))
        host = services.settings.host
        shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
        command = curl_of(again.body, f"http://{shown}:{services.port}")
        return self._panel.fragment(
            request,
            "trace_curl.html",
            command=command[:MAX_CURL_CHARS],
            cut=len(command) > MAX_CURL_CHARS,
            lacks=again.lacks,
        )

    async def _replay(self, request: Request) -> Response:
        form = await self._panel.form(request)
        new = await self._replays.begin(
            request.path_params["id"],
            form.get("model", ""),
            tools=form.get("tools") == "true",
            client_ip=request.scope[CLIENT_IP],
        )
        return self._led(request, _address(new))

    async def _delete(self, request: Request) -> Response:
        await self._panel.services.traces.delete(request.path_params["id"])
        return self._led(request, f"{URL}/traces")

    async def _delete_all(self, request: Request) -> Response:
        form = await self._panel.form(request)
        if form.get("all") != "true":
            raise BadRequestError(both("没有确认删除全部", "it was not confirmed that all are to be deleted"))
        await self._panel.services.traces.delete()
        return self._led(request, f"{URL}/traces")

    @staticmethod
    def _led(request: Request, address: str) -> Response:
        if "hx-request" in request.headers:
            return Response(status_code=200, headers={"HX-Redirect": address})
        return RedirectResponse(address, 303)


def _address(id: str) -> str:
    return f"{URL}/trace/{quote(id, safe='')}"


def _named(names: Sequence[str]) -> list[tuple[str, str]]:
    """Choices of a form."""
    return [(name, name[:60]) for name in names]


def _hit(row: TraceRow) -> SearchHit:
    name = row.title or row.model or row.id
    return SearchHit(f"追踪：{name[:80]}", f"Trace: {name[:80]}", _address(row.id), row.model)


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """Rounds, calls and what memory gave, with texts that fit on a page."""
    cutting = _Cutting()
    rounds = [{**one, "shown": cutting.text(one.get("text"))} for one in document["rounds"]]
    calls = [
        {
            **call,
            "where": where(call),
            "shown_arguments": cutting.value(call.get("arguments")),
            "shown_result": cutting.value(call.get("result")),
            "shown_message": cutting.text(call.get("message")),
        }
        for call in document["calls"][:MAX_CALLS]
    ]
    return {
        "rounds": rounds,
        "calls": calls,
        "calls_left_out": max(0, len(document["calls"]) - MAX_CALLS),
        "recalls": [_recall(one, cutting) for one in document["recall"][:MAX_RECALLS]],
        "error": cutting.text(document["error"]),
    }


def _recall(one: Mapping[str, Any], cutting: _Cutting) -> dict[str, Any]:
    """A declaration for the page: its name, and its hits, those of chains and of models too."""
    hits: list[dict[str, Any]] = []
    found = one.get("results")
    stages = one.get("stages")
    for stage in stages if isinstance(stages, list) else ():
        found = [*(found if isinstance(found, list) else ()), *(stage.get("results") or ())]
    for hit in found if isinstance(found, list) else ():
        if isinstance(hit, Mapping):
            score, original = hit.get("score"), hit.get("originalScore")
            text = cutting.text(hit.get("text"), MAX_HIT_CHARS)
            hits.append({**hit, "score": score, "original": original, "shown": text})
    extracted = cutting.text(one.get("extractedMemories"))
    name = one.get("dbName") or one.get("chainName") or ", ".join(map(str, one.get("dbNames") or ()))
    return {
        "type": one.get("type", ""),
        "name": name,
        "hits": hits[:MAX_HITS],
        "more": max(0, len(hits) - MAX_HITS),
        "query": cutting.text(one.get("query"), MAX_HIT_CHARS),
        "extracted": extracted,
        "k": one.get("k"),
    }


class _Cutting:
    """Texts of one page, in all no more than it may hold. A text that is not kept is shown as its length."""

    def __init__(self) -> None:
        self._left = MAX_PAGE_CHARS

    def text(self, text: Any, most: int = MAX_SHOWN) -> dict[str, Any] | None:
        """``text`` (None: not kept), ``chars`` and ``cut``; None where there is nothing."""
        if isinstance(text, Mapping) and set(text) == {"chars"}:
            return {"text": None, "chars": text["chars"], "cut": False}
        if not isinstance(text, str) or not text:
            return None
        allowed = max(0, min(most, self._left))
        self._left -= min(len(text), allowed)
        return {"text": text[:allowed], "chars": len(text), "cut": len(text) > allowed}

    def value(self, value: Any) -> dict[str, Any] | None:
        """The same for a JSON value."""
        if value is None or (isinstance(value, Mapping) and set(value) == {"chars"}):
            return self.text(value)
        return self.text(value if isinstance(value, str) else pretty_json(value))
