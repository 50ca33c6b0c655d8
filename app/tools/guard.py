"""Guards that the core brings: the tool password (spec 4.5, 7.3; decision D30)."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from app.extend import CallContext, Door, ErrorKind, ToolCall, ToolResult, ToolSpec
from app.protocol.markers import PASSWORD_REFUSED


class PasswordGuard:
    """Refuses calls without the auth code while ``enabled`` says so (``VCPToolCode``).

    With ``everywhere`` every door asks for it, as decision D30 wants; without it only normal calls of the chat loop do,
    as the reference server had it. Diary blocks of a reply never carry a code: the server itself files them; scheduled
    calls had theirs checked when the task was made. A code that cannot be read refuses every call (B11).
    """

    def __init__(
        self,
        read_code: Callable[[], str | None],
        *,
        enabled: Callable[[], bool] = lambda: True,
        everywhere: Callable[[], bool] = lambda: True,
    ) -> None:
        self._read_code = read_code
        self._enabled = enabled
        self._everywhere = everywhere

    async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
        """None when the call's password is the code of now, or none is asked for at this door."""
        del spec
        if not self._asked_for(call, context):
            return None
        code = self._read_code()
        given = call.password or ""
        if code and hmac.compare_digest(given.strip().encode("utf-8", "replace"), code.encode()):
            return None
        return ToolResult(error_kind=ErrorKind.REFUSED, message=PASSWORD_REFUSED)

    def _asked_for(self, call: ToolCall, context: CallContext) -> bool:
        if not self._enabled() or context.door in (Door.DIARY_BLOCK, Door.SCHEDULE):
            return False
        if self._everywhere():
            return True
        return context.door in (Door.STREAM, Door.NON_STREAM) and not call.archery
