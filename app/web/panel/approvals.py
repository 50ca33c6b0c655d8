"""Approvals: calls and questions that wait for a person, the rules, and what came of the last ones (7.6; D75)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.config.approval_rules import DEFAULT_MINUTES, MAX_MINUTES, MAX_RULES
from app.config.edit_lock import edit_lock
from app.config.edited_file import EditConflictError
from app.config.json_file import JsonFileError, parsed_object
from app.errors import BadRequestError, NotFoundError, both
from app.extend import DeclaredRoute, Json, PageGroup, PanelPage
from app.hub.approval.guard import Answered, Pending
from app.protocol.forms import FormField
from app.protocol.json_text import pretty_json
from app.protocol.pages import page_fault, page_host
from app.services.operator_files import approvals_of
from app.services.tool_watch import approval_history
from app.web.gate import CLIENT_IP
from app.web.panel.frame import Panel, panel_route

TABS = ("queue", "rules", "file", "history")
FIELD = "field:"
MAX_CARDS = 50
"""Calls and questions that are shown at a time; the next ones come when these are decided."""

SHOWN_TOGETHER = 120_000
"""Most characters of arguments of all calls in one page; ``vcp approve`` shows more of each."""

HISTORY_ROWS = 200
REASON_CHARS = 300
MAX_KNOWN = 1_000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call or question as the page shows it; ``arguments`` are names and texts, ``until`` is seconds since the epoch.

    ``cut``: there is more of it than the page shows.
    """

    id: str
    tool: str
    door: str
    maid: str
    asked_at: float
    until: float
    arguments: tuple[tuple[str, str], ...]
    cut: bool
    asker: str = ""
    message: str = ""
    link: str = ""
    host: str = ""
    fields: tuple[FormField, ...] = ()


class ApprovalsPart:
    """The page, and what its forms do."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._services = panel.services
        self._history = approval_history(panel.services)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "approval approve deny reject 批准 拒绝 elicitation 规则 rules toolApprovalConfig"
        return (PanelPage("approvals", PageGroup.TOOLS, "审批", "Approvals", 30, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page, what is new in its queue, answers, rules."""
        return (
            panel_route("/approvals", self._show),
            panel_route("/approvals-news", self._news, "POST"),
            panel_route("/approvals-answer/{id}", self._answer, "POST"),
            panel_route("/approvals-rules", self._save_rules, "POST"),
        )

    async def _show(self, request: Request) -> Response:
        tab = request.query_params.get("tab", "")
        tab = tab if tab in TABS else TABS[0]
        values: dict[str, Any] = {"tab": tab}
        if tab == "queue":
            pending = self._services.approvals.pending()
            values |= {"cards": self._waiting(), "waiting": len(pending), "most": MAX_CARDS}
            values["open"] = self._services.approvals.open
        elif tab == "rules":
            values |= await self._rules()
        elif tab == "file":
            file = approvals_of(self._services.in_force)
            edited = await asyncio.to_thread(file.read)
            values |= {"file": edited, "problems": await asyncio.to_thread(file.problems, edited.text)}
        else:
            values |= {"decided": self._history.last(HISTORY_ROWS), "reason_chars": REASON_CHARS}
        return self._panel.page(request, "approvals.html", "approvals", **values)

    # --- the queue --------------------------------------------------------------------------------------------------

    def _waiting(self, without: frozenset[str] = frozenset()) -> list[Waiting]:
        pending = self._services.approvals.pending()[:MAX_CARDS]
        limit = SHOWN_TOGETHER // max(1, len(pending))
        return [shown(one, limit) for one in pending if one.id not in without]

    async def _news(self, request: Request) -> Response:
        known = [value for name, value in await self._panel.fields(request) if name == "known"][:MAX_KNOWN]
        now = {one.id: None for one in self._services.approvals.pending()}
        return self._panel.fragment(
            request,
            "approvals_news.html",
            new=self._waiting(frozenset(known)),
            gone=[one for one in known if one not in now and self._services.approvals.settled(one) is not None],
            waiting=len(now),
            most=MAX_CARDS,
        )

    async def _answer(self, request: Request) -> Response:
        fields = await self._panel.fields(request)
        form, request_id = dict(fields), request.path_params["id"]
        if form.get("approved") not in ("true", "false"):
            raise BadRequestError(both("缺少 approved", "approved is missing"))
        approved = form["approved"] == "true"
        approvals = self._services.approvals
        pending = approvals.find(request_id)
        content = filled_form(pending.fields, fields) if approved and pending is not None and pending.fields else None
        by = f"panel from {request.scope[CLIENT_IP]}"
        answered = approvals.answer(request_id, approved, by=by, reason=form.get("reason", "").strip(), content=content)
        events: dict[str, Any] = {"approval-answered": {}}
        if answered is Answered.COUNTED:
            words = ("已批准。", "Approved.") if approved else ("已拒绝。", "Rejected.")
            return self._panel.told(request, *words, events=events)
        if answered is Answered.LATE:
            late = ("来晚了：它已不再等待。", "Too late: it waits no longer.")
            return self._panel.told(request, *late, kind="warn", status=409, events=events)
        raise NotFoundError(both("没有这个等待批准的请求", "no request of this id waits for approval"))

    # --- rules ------------------------------------------------------------------------------------------------------

    async def _rules(self) -> dict[str, Any]:
        file = approvals_of(self._services.in_force)
        edited = await asyncio.to_thread(file.read)
        fault = ""
        try:
            value, _problems = parsed_object(edited.text.encode("utf-8", "replace"), file.path.name, JsonFileError)
        except JsonFileError as error:
            value, fault = {}, error.message
        listed = value.get("approvalList")
        privacy = value.get("privacyProtection")
        return {
            "fingerprint": edited.fingerprint,
            "fault": fault,
            "problems": () if fault else await asyncio.to_thread(file.problems, edited.text),
            "enabled": value.get("enabled") is True,
            "everything": value.get("approveAll") is True,
            "minutes": value.get("timeoutMinutes", DEFAULT_MINUTES),
            "private": isinstance(privacy, Mapping) and privacy.get("enabled") is True,
            "listed": "\n".join(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else "",
            "tools": sorted(self._services.router.specs())[:MAX_RULES],
            "most_minutes": MAX_MINUTES,
            "saved": False,
        }

    async def _save_rules(self, request: Request) -> Response:
        form = await self._panel.form(request)
        file, lock = approvals_of(self._services.in_force), edit_lock(self._services.in_force.home)
        edited = await asyncio.to_thread(file.read)
        fault, saved = "", False
        try:
            value, _problems = parsed_object(edited.text.encode("utf-8", "replace"), file.path.name, JsonFileError)
            text = pretty_json(_with_rules(value, form)) + "\n"
            await asyncio.to_thread(file.save, text, form.get("version", ""), lock)
            saved = True
        except (JsonFileError, BadRequestError) as error:
            fault = error.message
        except EditConflictError:
            fault = both(
                "规则在此期间被改动，尚未保存：请核对后再保存",
                "the rules were changed meanwhile, and nothing is saved yet: look, then save again",
            )
        values = await self._rules()
        if not saved:
            values |= _as_filled_in(form) | {"fault": fault}
        return self._panel.fragment(request, "approvals_rules.html", **{**values, "saved": saved})


def shown(pending: Pending, limit: int) -> Waiting:
    """What a person sees of a call or question, with about ``limit`` characters of arguments."""
    arguments: list[tuple[str, str]] = []
    left, cut = limit, False
    for name, value in ({} if pending.question is not None else pending.arguments).items():
        text = value if isinstance(value, str) else pretty_json(value)
        if len(text) > left:
            text, cut = _middle_cut(text, max(left, 400)), True
        left = max(0, left - len(text))
        arguments.append((name, text))
    question = pending.question
    url = question.url if question is not None and not page_fault(question.url) else ""
    return Waiting(
        pending.id,
        pending.call.tool,
        pending.context.door.value,
        pending.call.maid or "",
        pending.asked_at,
        pending.asked_at + pending.seconds,
        tuple(arguments),
        cut,
        asker=question.asker if question is not None else "",
        message=question.message[:limit] if question is not None else "",
        link=url,
        host=page_host(url) if url else "",
        fields=pending.fields,
    )


def _middle_cut(text: str, room: int) -> str:
    left_out = len(text) - room
    if left_out <= 0:
        return text
    note = both(f"此处省略 {left_out} 个字符", f"{left_out} characters are left out here")
    return f"{text[: room // 2]}\n[… {note} …]\n{text[-(room - room // 2) :]}"


def filled_form(fields: Sequence[FormField], given: Sequence[tuple[str, str]]) -> dict[str, Json]:
    """The content of a form as a person filled it in; empty fields are left out. Raises BadRequestError."""
    content: dict[str, Json] = {}
    for field in fields:
        values = [value for name, value in given if name == FIELD + field.name]
        if field.kind == "array":
            if chosen := [value for value in values if value]:
                content[field.name] = chosen
        elif values and values[-1].strip():
            try:
                content[field.name] = field.parsed(values[-1].replace("\r\n", "\n"))
            except (ValueError, OverflowError):
                raise BadRequestError(
                    both(f"{field.title or field.name} 的值不合要求", f"{field.title or field.name} has a wrong value")
                ) from None
    return content


def _with_rules(value: Mapping[str, Json], form: Mapping[str, str]) -> dict[str, Json]:
    """The file's object with what the form says; all other keys stay. Raises BadRequestError."""
    try:
        minutes = float(form.get("minutes", ""))
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= MAX_MINUTES:
        raise BadRequestError(
            both(f"等待时间应为 0 到 {MAX_MINUTES} 分钟", f"the waiting time is between 0 and {MAX_MINUTES} minutes")
        )
    listed: list[Json] = [line.strip() for line in form.get("listed", "").splitlines() if line.strip()]
    if len(listed) > MAX_RULES:
        raise BadRequestError(both(f"超过 {MAX_RULES} 条规则", f"there are more than {MAX_RULES} rules"))
    changed: dict[str, Json] = {
        **value,
        "enabled": form.get("enabled") == "true",
        "timeoutMinutes": int(minutes) if minutes.is_integer() else minutes,
        "approveAll": form.get("everything") == "true",
        "approvalList": listed,
    }
    privacy = value.get("privacyProtection")
    private = form.get("private") == "true"
    if private or isinstance(privacy, Mapping):
        changed["privacyProtection"] = {**(privacy if isinstance(privacy, Mapping) else {}), "enabled": private}
    return changed


def _as_filled_in(form: Mapping[str, str]) -> dict[str, Any]:
    return {
        "enabled": form.get("enabled") == "true",
        "everything": form.get("everything") == "true",
        "private": form.get("private") == "true",
        "minutes": form.get("minutes", ""),
        "listed": form.get("listed", ""),
    }
