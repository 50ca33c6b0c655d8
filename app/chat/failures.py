"""What a client reads when a turn fails: as text in an answer, or as a status with an error object (spec 4.8, 4.10)."""

from __future__ import annotations

import math
from typing import Any

from app.chat.payload import loads
from app.errors import UpstreamConnectError, UpstreamError, UpstreamStatusError, VcpError
from app.protocol import markers
from app.protocol.chat import error_object


def failure_text(error: VcpError) -> str:
    """What a person reads in the answer (spec 4.10)."""
    if isinstance(error, UpstreamStatusError) and not error.exhausted:
        return markers.upstream_status_error(error.upstream_status, error.body.decode("utf-8", "replace"))
    if isinstance(error, UpstreamError):
        return markers.upstream_unreachable(error.message)
    return f"[ERROR] {error.message}"


def failure_headers(error: VcpError) -> dict[str, str]:
    """Headers for an answer that is nothing but the error."""
    if isinstance(error, UpstreamStatusError) and error.retry_after is not None:
        return {"retry-after": str(math.ceil(error.retry_after))}
    return {}


def error_answer(error: VcpError) -> tuple[int, dict[str, Any]]:
    """Status and OpenAI-shaped body for a fault on the first call (spec 4.8, 4.10; D26)."""
    if isinstance(error, UpstreamStatusError):
        status = error.upstream_status if error.upstream_status >= 400 else 502
        return status, _status_body(error)
    if isinstance(error, UpstreamConnectError):
        text = f"{markers.INTERNAL_SERVER_ERROR}: {markers.FETCH_FAILED} {error.message}"
        return 500, _with_error({}, text, error.code, None)
    if not isinstance(error, UpstreamError):
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        return error.status, error_object(error.message, kind, error.code)
    return error.status, _with_error({}, f"{markers.INTERNAL_SERVER_ERROR}: {error.message}", error.code, None)


def _status_body(error: UpstreamStatusError) -> dict[str, Any]:
    raw = error.body.decode("utf-8", "replace")
    try:
        parsed = loads(error.body)
    except (ValueError, RecursionError):
        parsed = None
    body = dict(parsed) if isinstance(parsed, dict) else {}
    known = body.get("error")
    said = raw
    if isinstance(known, dict) and isinstance(known.get("message"), str):
        said = known["message"]
    elif isinstance(known, str):
        said = known
    text = markers.upstream_status_error(error.upstream_status, said)
    if error.exhausted:
        text = f"{text} {markers.FETCH_FAILED}"
    body.setdefault(
        "choices",
        [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text if isinstance(parsed, dict) else raw},
                "finish_reason": "stop",
            }
        ],
    )
    if isinstance(known, dict) and isinstance(known.get("message"), str):
        message = f"{said} ({markers.FETCH_FAILED})" if error.exhausted else said
        body["error"] = {**known, "message": message}
        return body
    return _with_error(body, text, error.code, known)


def _with_error(body: dict[str, Any], message: str, code: str, known: Any) -> dict[str, Any]:
    fields = dict(known) if isinstance(known, dict) else {}
    return {**body, "error": {"type": "upstream_error", "param": None, "code": code, **fields, "message": message}}
