"""Approvals of the server that owns the home, asked and answered over loopback (spec 7.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from app.errors import BadRequestError, ConfigError, NotFoundError, both
from app.extend import Json
from app.home.lock import Owner
from app.home.running_server import ask, refused

Fields = Mapping[str, Json]


async def waiting_approvals(owner: Owner, key: str) -> Sequence[Fields]:
    """The calls that wait for approval, the oldest first; raises ConfigError when the server does not tell."""
    status, value = await _asked(owner, key, "GET", "/v1/approvals")
    listed = value.get("approvals")
    if status != 200 or not isinstance(listed, list):
        raise _refused(status, value)
    return [one for one in listed if isinstance(one, dict) and isinstance(one.get("requestId"), str)]


async def answer_approval(
    owner: Owner, key: str, request_id: str, *, approved: bool, reason: str = "", content: Fields | None = None
) -> tuple[bool, Fields]:
    """Say yes or no: whether it counted, and what came of the request in the end. ``content`` fills in a form.

    Raises NotFoundError when no such request waits, BadRequestError when the content does not fit the form, ConfigError
    when the server cannot be asked.
    """
    path = f"/v1/approvals/{quote(request_id, safe='')}"
    body: dict[str, Json] = {"approved": approved, "reason": reason}
    if content is not None:
        body["content"] = dict(content)
    status, value = await _asked(owner, key, "POST", path, body)
    if status == 404:
        raise NotFoundError(
            both(
                f"没有等待批准的请求 {request_id}；用 vcp approve 列出",
                f"no request {request_id} waits for approval; vcp approve lists those that do",
            )
        )
    if status == 400:
        said = value.get("error")
        raise BadRequestError(said if isinstance(said, str) else both("回答不符", "the answer does not fit"))
    if status not in (200, 409):
        raise _refused(status, value)
    return status == 200, value


async def _asked(owner: Owner, key: str, method: str, path: str, body: Json = None) -> tuple[int, Fields]:
    status, value = await ask(owner, key, method, path, body)
    return status, value if isinstance(value, dict) else {}


def _refused(status: int, value: Fields) -> ConfigError:
    said = value.get("error")
    return refused(status, said if isinstance(said, str) else "")
