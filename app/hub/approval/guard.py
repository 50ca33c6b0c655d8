"""What waits for a person's word: calls that a guard holds, and questions of MCP servers (spec 7.6; B15, D75)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from app.config.approval_rules import ApprovalNeed, ApprovalRules
from app.errors import BadRequestError, both
from app.extend import (
    GROUPS,
    AnswerAction,
    ApprovalAsked,
    ApprovalSettled,
    CallContext,
    Clock,
    ErrorKind,
    EventSink,
    Json,
    PersonAnswer,
    PersonQuestion,
    Question,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from app.hub.approval.names import names_of
from app.hub.approval.question import shown_as_arguments
from app.hub.approval.request import shown_arguments
from app.protocol.forms import FormField, filled_in, read_form

log = logging.getLogger(__name__)

MAX_PENDING = 256
"""Most calls that wait for a word at a time; further ones are refused."""

MAX_QUESTIONS = 64
MAX_QUESTIONS_OF_ONE = 4
"""Most questions of servers, and of one server, that wait at a time, so that they leave room for calls."""

MAX_SETTLED = 512
"""How many settled requests are remembered, so that a late answer can be told what came of them."""

MAX_REASON_CHARS = 2000


class Answered(Enum):
    """What an answer did."""

    COUNTED = "counted"
    LATE = "late"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Pending:
    """A call that waits. ``asked_at`` in seconds since the epoch, ``until`` in those of the event loop.

    With ``question`` it is not the call that waits but what a server asks; ``fields`` are those of its form, and
    ``content`` is what a person filled in.
    """

    id: str
    call: ToolCall
    context: CallContext
    arguments: Mapping[str, Json]
    asked_at: float
    seconds: float
    until: float
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    settled: ApprovalSettled | None = None
    question: PersonQuestion | None = None
    fields: tuple[FormField, ...] = ()
    content: Mapping[str, Json] | None = None

    def left(self) -> float:
        """Seconds that it still waits."""
        return max(0.0, self.until - asyncio.get_running_loop().time())


class Approvals:
    """The ``Guard`` that holds calls until a person has decided, ``People`` for servers, and the list of what waits.

    ``rules`` gives the rules of now; a call is judged by those of its beginning. Until whoever can ask a person has set
    ``open``, nobody could answer, and calls that need approval are refused. Waiting ends with an answer, with the time
    of the rules, with the time of the call's turn, and when the call is cancelled. The rest of the server hears of it
    by events.
    """

    def __init__(
        self,
        rules: Callable[[], ApprovalRules],
        events: EventSink,
        *,
        clock: Clock,
        new_id: Callable[[str], str],
    ) -> None:
        self.open = False
        self._rules = rules
        self._events = events
        self._clock = clock
        self._new_id = new_id
        self._pending: dict[str, Pending] = {}
        self._settled: OrderedDict[str, ApprovalSettled] = OrderedDict()
        self._stopping = False

    # ------------------------------------------------------------------ the guard

    async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
        """None when no rule is about the call, or a person said yes; else what the caller is told."""
        if spec is None or not spec.callable:
            return None
        rules = self._rules()
        if spec.origin == GROUPS and rules.everything:
            rules = replace(rules, everything=False)  # the call that it leads to is asked about, by its own name
        need = rules.need(*names_of(spec, call)) if rules.enabled else None
        if rules.explained:
            log.info("call %s of %r: %s", call.id, call.tool, _explained(rules, need))
        if need is None:
            return None
        if not self.open and not _asked_at_its_client(context):
            return _nobody_here(call.tool)
        if self._stopping:
            return _ended(call.tool)
        if len(self._pending) >= MAX_PENDING:
            return _too_many()
        settled = await self._wait(rules, need, call, context)
        if settled.approved:
            return None
        if settled.approved is False:
            return rejected(call.tool, settled.reason, silent=need.silent)
        return _ended(call.tool) if self._stopping else _nobody_answered(call.tool)

    async def _wait(
        self, rules: ApprovalRules, need: ApprovalNeed, call: ToolCall, context: CallContext
    ) -> ApprovalSettled:
        return await self._hold(self._new(call, context, shown_arguments(call, private=rules.private), need.seconds))

    def _new(self, call: ToolCall, context: CallContext, arguments: Mapping[str, Json], seconds: float) -> Pending:
        now = asyncio.get_running_loop().time()
        until = now + seconds if context.deadline is None else min(now + seconds, context.deadline)
        left = max(0.0, until - now)
        return Pending(self._new_id("approval"), call, context, arguments, self._clock(), left, until)

    async def _hold(self, pending: Pending) -> ApprovalSettled:
        call, context, until = pending.call, pending.context, pending.until
        self._pending[pending.id] = pending
        try:
            self._events.publish(ApprovalAsked(pending.id, call, context, pending.asked_at, pending.seconds))
            async with asyncio.timeout_at(until):
                await pending.answered.wait()
        except TimeoutError:
            self._settle(pending, None, reason="no answer in time")
        finally:
            self._settle(pending, None, reason="the call was cancelled")  # unless it is settled
        assert pending.settled is not None
        return pending.settled

    # ------------------------------------------------------------------ questions of servers

    async def ask(self, question: PersonQuestion, seconds: float) -> PersonAnswer:
        """A person's answer (D75): declined when one says no, when nobody answers, and when nobody can be asked.

        So is a form that is none: no person could fill it in.
        """
        try:
            fields = read_form(question.schema) if question.schema is not None else ()
        except ValueError:
            return PersonAnswer(AnswerAction.DECLINE)
        if not self.open or self._stopping or not self._has_room_for(question.asker):
            return PersonAnswer(AnswerAction.DECLINE)
        call = ToolCall(self._new_id("question"), question.tool or question.asker, {})
        context = replace(question.context, caller=None)  # who is asked elsewhere has been asked before
        pending = self._new(call, context, shown_as_arguments(question, fields), seconds)
        pending.question, pending.fields = question, fields
        settled = await self._hold(pending)
        if settled.approved:
            return PersonAnswer(AnswerAction.ACCEPT, pending.content)
        return PersonAnswer(AnswerAction.CANCEL if self._stopping else AnswerAction.DECLINE)

    def _has_room_for(self, asker: str) -> bool:
        askers = [one.question.asker for one in self._pending.values() if one.question is not None]
        of_one = askers.count(asker) < MAX_QUESTIONS_OF_ONE
        return of_one and len(askers) < MAX_QUESTIONS and len(self._pending) < MAX_PENDING

    def private(self) -> bool:
        """Whether the file wants secrets masked in results (``privacyProtection``), approvals or not."""
        return self._rules().private

    # ------------------------------------------------------------------ those who decide

    def pending(self) -> tuple[Pending, ...]:
        """The calls that wait now, the oldest first."""
        return tuple(self._pending.values())

    def find(self, request_id: str) -> Pending | None:
        """The call that waits under this id."""
        return self._pending.get(request_id)

    def settled(self, request_id: str) -> ApprovalSettled | None:
        """What came of a request that waits no longer; None when it was never there or is forgotten."""
        return self._settled.get(request_id)

    def answer(
        self,
        request_id: str,
        approved: bool,
        *,
        by: str,
        reason: str = "",
        content: Mapping[str, Json] | None = None,
    ) -> Answered:
        """A person's word; the first one counts. ``by`` says who he is, for the log and for all others.

        ``content`` are the fields of a question's form; those with a default may be missing. Raises BadRequestError,
        and the question waits on, when they do not fit the form.
        """
        pending = self._pending.get(request_id)
        if pending is None:
            return Answered.LATE if request_id in self._settled else Answered.UNKNOWN
        if approved and pending.question is not None and pending.question.schema is not None:
            try:
                pending.content = filled_in(pending.fields, content or {})
            except ValueError as error:
                raise BadRequestError(
                    both("表单内容不符", "the content does not fit the form") + f": {error}"
                ) from None
        self._settle(pending, approved, by=by, reason=reason[:MAX_REASON_CHARS])
        return Answered.COUNTED

    def _settle(self, pending: Pending, approved: bool | None, *, by: str = "", reason: str = "") -> None:
        if self._pending.pop(pending.id, None) is None:
            return
        settled = pending.settled = ApprovalSettled(pending.id, pending.call.tool, approved, by, reason)
        self._settled[pending.id] = settled
        while len(self._settled) > MAX_SETTLED:
            self._settled.popitem(last=False)
        pending.answered.set()
        self._events.publish(settled)

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Calls may be held; what is wrong with the rules is told now."""
        self._stopping = False
        await asyncio.to_thread(self._rules)

    def health(self) -> str:
        """Nothing can be wrong with it."""
        return ""

    async def stop(self) -> None:
        """Nobody will answer any more."""
        self._stopping = True
        for pending in self.pending():
            self._settle(pending, None, reason="the server stops")


def _asked_at_its_client(context: CallContext) -> bool:
    """Whether the client behind the call shows forms, so that its user can decide though nobody else is there."""
    return context.caller is not None and context.caller.can(Question.ELICIT, {"mode": "form"})


def _explained(rules: ApprovalRules, need: ApprovalNeed | None) -> str:
    if need is None:
        return "no rule is about it" if rules.enabled else "approval is switched off"
    return f"needs approval within {need.seconds:g} s{', rejected in silence' if need.silent else ''}"


def rejected(tool: str, reason: str, *, silent: bool = False) -> ToolResult:
    """A person said no; a model hears nothing of a ``silent`` one."""
    said = f": {reason}" if reason else ""
    message = both(f"用户拒绝了对工具 {tool} 的调用", f"the user rejected this call of {tool}") + said
    return ToolResult(error_kind=ErrorKind.REJECTED, message=message, silent=silent)


def _nobody_answered(tool: str) -> ToolResult:
    message = both(
        f"对工具 {tool} 的调用需要人工批准，但在时限内无人答复，未执行",
        f"this call of {tool} needs a person's approval; nobody answered in time, it did not run",
    )
    return ToolResult(error_kind=ErrorKind.UNANSWERED, message=message)


def _ended(tool: str) -> ToolResult:
    message = both(
        f"服务器正在停止，对工具 {tool} 的调用未获批准，未执行",
        f"the server stops; this call of {tool} was not approved and did not run",
    )
    return ToolResult(error_kind=ErrorKind.UNANSWERED, message=message)


def _nobody_here(tool: str) -> ToolResult:
    message = both(
        f"对工具 {tool} 的调用需要人工批准，但此处无人可以答复。请启动服务器（vcp serve），"
        "再用 vcp approve 或聊天客户端批准；vcp tool 也可在终端中直接询问",
        f"this call of {tool} needs a person's approval and nobody could give it here. Start the server (vcp serve) "
        "and approve with vcp approve or a chat client; on a terminal vcp tool asks by itself",
    )
    return ToolResult(error_kind=ErrorKind.REFUSED, message=message)


def _too_many() -> ToolResult:
    message = both(
        f"等待批准的调用已达上限 {MAX_PENDING} 个，此调用未执行",
        f"{MAX_PENDING} calls wait for approval already; this one did not run",
    )
    return ToolResult(error_kind=ErrorKind.QUEUE, message=message)
