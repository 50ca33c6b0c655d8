"""Trying a tool from its page: the call goes through the router like every other, so guards and approvals count."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.errors import NotFoundError, both
from app.extend import CallContext, Door, ErrorKind, Json, ToolResult
from app.protocol.json_text import pretty_json
from app.services.tool_watch import clean_text
from app.tools.catalogue import Listed
from app.tools.trial import free_rows, trial_call, trial_fields
from app.web.gate import CLIENT_IP
from app.web.panel.frame import Panel

MAX_TEXT_CHARS = 200_000
MAX_PARTS = 50
MAX_PICTURE_CHARS = 8_000_000
"""Of all pictures of one result together, in base64."""

PICTURES = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif", "webp", "avif", "bmp"))


@dataclass(frozen=True, slots=True)
class ShownPart:
    """One piece of a result: a ``text``, a ``picture`` as a data address, or a ``link``."""

    kind: str
    value: str
    cut: bool = False


class Trials:
    """Fields and results of the form that tries a tool."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._services = panel.services
        self._clean = clean_text(panel.services)

    def listed(self, name: str) -> list[Listed]:
        """The ways in which this tool can be called: one, or one for each of its commands."""
        return [one for one in self._services.router.listed() if one.spec.name == name]

    def values(self, name: str, wanted: str) -> dict[str, Any]:
        """What the form needs; raises NotFoundError."""
        ways = self.listed(name)
        way = next((one for one in ways if one.name == wanted), ways[0] if ways else None)
        if way is None:
            raise NotFoundError(both(f"没有工具 {name[:64]!r}", f"there is no tool {name[:64]!r}"))
        command = way.command
        fields = trial_fields(command.parameters if command is not None else None)
        return {
            "ways": [(one.name, (one.command.title if one.command else "") or one.name) for one in ways],
            "way": way.name,
            "name": name,
            "fields": fields,
            "rows": () if fields else free_rows(command.example if command is not None else ""),
            "about": (command.description if command is not None else "")[:MAX_TEXT_CHARS],
            "password_wanted": self._services.settings.vcp_tool_code,
        }

    async def fields(self, request: Request) -> Response:
        """The fields of another command."""
        values = self.values(request.path_params["name"], request.query_params.get("way", ""))
        return self._panel.fragment(request, "plugin_fields.html", **values)

    async def run(self, request: Request) -> Response:
        """Run the call of a filled-in form and show what came of it."""
        form = await self._panel.fields(request)
        wanted = dict(form).get("way", "")
        way = next((one for one in self.listed(request.path_params["name"]) if one.name == wanted), None)
        if way is None:
            raise NotFoundError(both(f"没有工具 {wanted[:64]!r}", f"there is no tool {wanted[:64]!r}"))
        services = self._services
        call = trial_call(way, form, services.new_id("call"), password_wanted=services.settings.vcp_tool_code)
        context = CallContext(turn_id=call.id, door=Door.PANEL, client_ip=request.scope[CLIENT_IP])
        begun = time.monotonic()
        result = await services.router.call(call, context)
        return self._panel.fragment(
            request,
            "plugin_result.html",
            ok=result.ok,
            kind=_kind(result),
            message=self._clean(result.message)[:MAX_TEXT_CHARS],
            stderr=self._clean(result.stderr_tail)[-MAX_TEXT_CHARS:],
            parts=self._shown(result),
            seconds=time.monotonic() - begun,
            call=call.id,
        )

    def _shown(self, result: ToolResult) -> Sequence[ShownPart]:
        if result.parts is not None:
            return self._parts(result.parts)
        if result.structured is None:
            return ()
        value = result.structured
        content = value.get("content") if isinstance(value, Mapping) else None
        if isinstance(content, list) and content and all(isinstance(part, Mapping) for part in content):
            return self._parts(content)
        return (self._text(value if isinstance(value, str) else pretty_json(value)),)

    def _parts(self, parts: Sequence[Mapping[str, Json]]) -> Sequence[ShownPart]:
        shown: list[ShownPart] = []
        room = MAX_PICTURE_CHARS
        for part in parts[:MAX_PARTS]:
            picture = part.get("image_url")
            address = picture.get("url") if isinstance(picture, Mapping) else picture
            if isinstance(address, str) and address.startswith(PICTURES) and len(address) <= room:
                room -= len(address)
                shown.append(ShownPart("picture", address))
            elif isinstance(address, str) and address.startswith(("http://", "https://")) and len(address) < 4000:
                shown.append(ShownPart("link", self._clean(address)))
            elif isinstance(part.get("text"), str):
                shown.append(self._text(str(part["text"])))
            else:
                shown.append(self._text(pretty_json(dict(part))))
        if len(parts) > MAX_PARTS:
            left = len(parts) - MAX_PARTS
            shown.append(ShownPart("text", both(f"另有 {left} 项未显示", f"{left} more parts are not shown")))
        return shown

    def _text(self, text: str) -> ShownPart:
        return ShownPart("text", self._clean(text[:MAX_TEXT_CHARS]), len(text) > MAX_TEXT_CHARS)


def _kind(result: ToolResult) -> str:
    waiting = {ErrorKind.REJECTED: "rejected", ErrorKind.UNANSWERED: "unanswered", ErrorKind.REFUSED: "refused"}
    if result.error_kind is None:
        return ""
    return waiting.get(result.error_kind, result.error_kind.value)
