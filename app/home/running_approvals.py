"""Approvals of the server that owns the home, asked and answered over loopback (spec 7.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import httpx

from app.errors import ConfigError, NotFoundError, both
from app.extend import Json
from app.home.lock import Owner
from app.protocol.json_text import compact_json, strict_json

SECONDS = 10.0
MAX_ANSWER_BYTES = 256 * 1024 * 1024

Fields = Mapping[str, Json]


async def waiting_approvals(owner: Owner, key: str) -> Sequence[Fields]:
    """The calls that wait for approval, the oldest first; raises ConfigError when the server does not tell."""
    status, value = await _ask(owner, key, "GET", "/v1/approvals")
    listed = value.get("approvals")
    if status != 200 or not isinstance(listed, list):
        raise _refused(status, value)
    return [one for one in listed if isinstance(one, dict) and isinstance(one.get("requestId"), str)]


async def answer_approval(
    owner: Owner, key: str, request_id: str, *, approved: bool, reason: str = ""
) -> tuple[bool, Fields]:
    """Say yes or no: whether it counted, and what came of the request in the end.

    Raises NotFoundError when no such request waits, ConfigError when the server cannot be asked.
    """
    path = f"/v1/approvals/{quote(request_id, safe='')}"
    status, value = await _ask(owner, key, "POST", path, {"approved": approved, "reason": reason})
    if status == 404:
        raise NotFoundError(
            both(
                f"没有等待批准的请求 {request_id}；用 vcp approve 列出",
                f"no request {request_id} waits for approval; vcp approve lists those that do",
            )
        )
    if status not in (200, 409):
        raise _refused(status, value)
    return status == 200, value


async def _ask(owner: Owner, key: str, method: str, path: str, body: Json = None) -> tuple[int, Fields]:
    if not owner.address:
        raise ConfigError(
            both(f"{owner} 占用了该安装目录，但不接受请求", f"{owner} owns this home but takes no requests")
        )
    headers = {b"Authorization": b"Bearer " + key.encode(), b"Content-Type": b"application/json"}
    content = None if body is None else compact_json(body).encode("utf-8", "replace")
    data = bytearray()
    try:
        async with (
            httpx.AsyncClient(timeout=SECONDS, trust_env=False) as client,
            client.stream(method, owner.address + path, headers=headers, content=content) as response,
        ):
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > MAX_ANSWER_BYTES:
                    raise ConfigError(both("服务器的回答过长", "the server's answer is too long"))
            status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigError(
            both(f"无法访问正在运行的服务器 {owner}", f"the server that owns this home cannot be reached: {owner}")
            + f": {error or type(error).__name__}"
        ) from error
    try:
        value = strict_json(bytes(data).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        value = None
    return status, value if isinstance(value, dict) else {}


def _refused(status: int, value: Fields) -> ConfigError:
    if status == 401:
        return ConfigError(
            both(
                "正在运行的服务器不接受此处的密钥：它启动时使用的 Key 与现在的配置不同",
                "the running server does not take the key of this home: it was started with another Key",
            )
        )
    said = value.get("error")
    return ConfigError(
        both(f"正在运行的服务器拒绝了请求（{status}）", f"the running server refused the request ({status})")
        + (f": {said}" if isinstance(said, str) else "")
    )
