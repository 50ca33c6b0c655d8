"""Approvals as VCPLog clients see them: they are asked, answer, and hear what came of it (spec 7.6; B15)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import tzinfo

from app.errors import BadRequestError, both
from app.extend import ApprovalAsked, ApprovalSettled, Clock, Event, Json, SocketRequest
from app.hub.approval.guard import Answered, Approvals, Pending
from app.hub.approval.question import shown_question
from app.hub.approval.request import MAX_CHARS, fitted
from app.hub.clients import Client, ClientType, Message
from app.hub.hub import Hub
from app.protocol.approval_messages import RESPONSE, request_message, settled_message
from app.protocol.timestamps import iso_millis

log = logging.getLogger(__name__)

MAX_ID_CHARS = 200
MAX_NAME_CHARS = 60

MAX_MAID_CHARS = 200
"""Of who calls; a model makes it up, and all of it is among the arguments."""

TOGETHER_CHARS = 500_000
"""Most characters of arguments in all requests that wait: a client must be able to take them at once."""


def described(pending: Pending, now: float, zone: tzinfo, limit: int = MAX_CHARS) -> dict[str, Json]:
    """The facts of a call that waits, as clients and routes tell them, with ``limit`` characters of arguments.

    ``timestamp`` is the moment at which this is told, so that with ``approvalTtlMs`` it gives the end of the waiting
    also for those who are told later; ``askedAt`` is when the call was held.
    """
    facts: dict[str, Json] = {
        "requestId": pending.id,
        "toolName": pending.call.tool,
        "maid": pending.call.maid and pending.call.maid[:MAX_MAID_CHARS],
        "args": pending.arguments if limit >= MAX_CHARS else fitted(pending.arguments, limit),
        "timestamp": iso_millis(now, zone),
        "approvalTtlMs": round(pending.left() * 1000),
        "askedAt": iso_millis(pending.asked_at, zone),
        "source": pending.context.door.value,
    }
    if pending.question is not None:  # our addition: a server asks; what a client knows to show is in ``args``
        facts["question"] = shown_question(pending.question, pending.fields)
    return facts


class ApprovalFeed:
    """Tells VCPLog clients of calls that wait, those that come later too, and takes their answers.

    ``heard`` belongs among the listeners to ``ApprovalAsked`` and ``ApprovalSettled``. ``clean`` takes out of a message
    what these clients must not read, such as keys of the server.
    """

    def __init__(
        self,
        hub: Hub,
        approvals: Approvals,
        *,
        clock: Clock,
        zone: Callable[[], tzinfo],
        clean: Callable[[Json], Json],
    ) -> None:
        self._hub = hub
        self._approvals = approvals
        self._clock = clock
        self._zone = zone
        self._clean = clean
        hub.joined(ClientType.VCP_LOG, self._joined)
        hub.heard(ClientType.VCP_LOG, RESPONSE, self._answered)

    def heard(self, event: Event) -> None:
        """Pass the event on to everybody."""
        if isinstance(event, ApprovalAsked):
            pending = self._approvals.find(event.request_id)
            if pending is not None:
                self._hub.broadcast(self._request(pending), (ClientType.VCP_LOG,))
        elif isinstance(event, ApprovalSettled):
            message = settled_message(event.request_id, event.tool, event.approved, by=event.by, reason=event.reason)
            self._hub.broadcast(self._clean(message), (ClientType.VCP_LOG,))

    def _request(self, pending: Pending) -> Message:
        limit = TOGETHER_CHARS // max(1, len(self._approvals.pending()))
        message: Message = self._clean(request_message(described(pending, self._clock(), self._zone(), limit)))
        return message

    def _joined(self, client: Client, _request: SocketRequest) -> None:
        for pending in self._approvals.pending():
            client.send(self._request(pending))

    def _answered(self, client: Client, message: Message) -> None:
        data = message.get("data")
        fields = data if isinstance(data, dict) else {}
        request_id, approved, reason = fields.get("requestId"), fields.get("approved"), fields.get("reason")
        if not isinstance(request_id, str) or not isinstance(approved, bool):
            log.warning("VCPLog client %s answered to no approval: requestId or approved is missing", client.id)
            wrong = both("需要 requestId 和布尔值 approved", "requestId and a boolean approved are needed")
            shown = request_id[:MAX_ID_CHARS] if isinstance(request_id, str) else ""
            self._tell(client, settled_message(shown, "", None, reason=wrong, late=True))
            return
        said = reason if isinstance(reason, str) else ""
        content = fields.get("content")
        given = content if isinstance(content, dict) else None
        try:
            answered = self._approvals.answer(request_id, approved, by=_who(client), reason=said, content=given)
        except BadRequestError as error:  # the question waits on
            self._tell(client, settled_message(request_id, "", None, reason=error.message, late=True))
            return
        if answered is Answered.COUNTED:
            return
        settled = self._approvals.settled(request_id)
        shown = request_id[:MAX_ID_CHARS]
        log.info("VCPLog client %s answered to %r, which is %s", client.id, shown, answered.value)
        if settled is None:
            unknown = both("没有这个等待批准的请求", "no request of this id waits")
            told = settled_message(shown, "", None, reason=unknown, late=True)
        else:
            told = settled_message(
                shown, settled.tool, settled.approved, by=settled.by, reason=settled.reason, late=True
            )
        self._tell(client, told)

    def _tell(self, client: Client, message: Message) -> None:
        client.send(self._clean(message))


def _who(client: Client) -> str:
    name = f" {client.name[:MAX_NAME_CHARS]!r}" if client.name else ""
    return f"VCPLog client {client.id}{name} from {client.address}"
