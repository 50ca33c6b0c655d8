"""The tool calls of a trace: found, asked for, run, where, with what."""

from __future__ import annotations

import math
from typing import Any

from app.extend import (
    SERVER_ORIGIN,
    ApprovalAsked,
    ApprovalSettled,
    CallFinished,
    CallFound,
    CallProgress,
    CallStarted,
    Json,
)
from app.observe.traces.texts import Texts

MAX_CALLS = 1_000
"""Calls of one trace; further ones are counted as skipped."""

MAX_SKIPPED = 200
MAX_NAME = 200

CallEvent = CallFound | CallStarted | CallProgress | CallFinished | ApprovalAsked | ApprovalSettled


class Calls:
    """Puts the events of calls together."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._calls: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, dict[str, Any]] = {}
        self.skipped: list[Json] = []

    def documents(self) -> list[dict[str, Any]]:
        """All calls, in the order in which they were met."""
        return list(self._calls.values())

    def take(self, at: float, event: CallEvent) -> None:
        """Take the next event, ``at`` seconds after the request came."""
        match event:
            case CallFound() if event.skipped_why:
                self._skip({"at": at, "tool": self._texts.name(event.tool), "why": event.skipped_why})
            case CallFound():
                self._call(event.call_id, event.tool, at)
            case CallStarted():
                one = self._call(event.call_id, event.tool, at)
                one |= {"start": at, "eager": event.eager, "place": place_of(event)}
                one["door"] = event.door.value
            case CallProgress() if event.call_id in self._calls:
                one = self._calls[event.call_id]
                one["progress"] = {"at": at, "progress": _finite(event.progress), "total": _finite(event.total)}
            case CallFinished():
                self._finished(at, event)
            case ApprovalAsked():
                one = self._call(event.call.id, event.call.tool, at)
                one["approval"] = self._asked[event.request_id] = {"asked": at, "settled": None}
            case ApprovalSettled() if event.request_id in self._asked:
                self._asked[event.request_id] |= {"settled": at, "approved": event.approved, "by": event.by[:MAX_NAME]}
            case _:
                pass

    def _call(self, id: str, tool: str, at: float) -> dict[str, Any]:
        one = self._calls.get(id)
        if one is None:
            one = {"id": id, "tool": self._texts.name(tool), "found": at, "start": None, "end": None}
            if len(self._calls) < MAX_CALLS:
                self._calls[id] = one
            else:
                self._skip({"at": at, "tool": self._texts.name(tool), "why": "not kept"})
        return one

    def _skip(self, skipped: Json) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(skipped)

    def _finished(self, at: float, event: CallFinished) -> None:
        call, result, context = event.call, event.result, event.context
        one = self._call(call.id, call.tool, max(0.0, at - event.waited - event.ran))
        if one["start"] is None and event.begun:
            one["start"] = max(0.0, round(at - event.ran, 6))
        kept = result.structured if result.parts is None else list(result.parts)
        one |= {
            "end": at,
            "command": self._texts.name(call.command or ""),
            "door": context.door.value,
            "client": context.client_ip,
            "parent_call": context.parent_call_id or "",
            "archery": call.archery,
            "waited": round(event.waited, 6),
            "ran": round(event.ran, 6),
            "outcome": event.outcome.value,
            "error_kind": result.error_kind.value if result.error_kind else "",
            "message": self._texts.text(result.message) if result.message else "",
            "arguments": self._texts.value(dict(call.arguments)),
            "result": self._texts.value(kept),
        }
        if "place" not in one:
            origin = event.spec.origin if event.spec is not None else ""
            one["place"] = {"kind": "", "origin": origin[:MAX_NAME]}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def place_of(event: CallStarted) -> dict[str, Json]:
    """Where a call runs: in a process, on a node, at an MCP server, inside this server."""
    origin = event.origin[:MAX_NAME]
    if event.node:
        return {"kind": "node", "origin": origin, "node": event.node[:MAX_NAME]}
    if event.origin.startswith(SERVER_ORIGIN):
        return {"kind": "mcp", "origin": origin, "server": event.origin.removeprefix(SERVER_ORIGIN)[:MAX_NAME]}
    if event.pid is not None:
        return {"kind": "process", "origin": origin, "pid": event.pid}
    return {"kind": "inside", "origin": origin}
