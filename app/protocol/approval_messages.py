"""What VCPLog clients and the server tell each other about approvals (spec 7.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REQUEST = "tool_approval_request"
RESPONSE = "tool_approval_response"
SETTLED = "tool_approval_settled"
"""Our addition: a call waits no longer, or an answer was of no use."""

ERROR_REJECTED = "approval_rejected"
ERROR_TIMEOUT = "approval_timeout"


def request_message(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A call waits for a person's word."""
    return {"type": REQUEST, "data": dict(facts)}


def settled_message(
    request_id: str, tool: str, approved: bool | None, *, by: str = "", reason: str = "", late: bool = False
) -> dict[str, Any]:
    """A call waits no longer; ``approved`` is null when nobody decided. ``late`` goes to whose answer did not count."""
    data: dict[str, Any] = {
        "requestId": request_id,
        "toolName": tool,
        "approved": approved,
        "by": by,
        "reason": reason,
    }
    return {"type": SETTLED, "data": {**data, "late": True} if late else data}
