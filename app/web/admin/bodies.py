"""What requests of administrators bring, and versions of files that several people edit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.chat.payload import loads_request
from app.config.edited_file import EditConflictError
from app.errors import BadRequestError, VcpError, both
from app.extend import Access, DeclaredRoute, Json
from app.protocol.half_characters import whole
from app.web.body import ClientGoneError, read_body
from app.web.errors import JsonResponse

BODY_LIMIT = 16 * 1024 * 1024
"""Bytes of a request body, where a route says nothing else."""

Answer = Callable[[Request], Awaitable[Response]]


class DiskError(VcpError):
    """A file could not be read or written: no space, no permission."""

    code = "disk"


def admin_route(path: str, answer: Answer, *methods: str) -> DeclaredRoute:
    """A route of ``/admin_api`` for these methods (none: GET); conflicts and faults of the disk are told as such."""
    return DeclaredRoute(Route(f"/admin_api{path}", telling(answer), methods=list(methods or ("GET",))), Access.ADMIN)


def telling(answer: Answer) -> Answer:
    """``answer``, with a 409 that has both versions for a conflict, and a clear error for a fault of the disk."""

    async def told(request: Request) -> Response:
        try:
            return await answer(request)
        except EditConflictError as error:
            content = {"error": error.message, "current": error.current, "yours": error.yours}
            return JsonResponse({**content, "content": error.content}, error.status)
        except OSError as fault:
            reason = fault.strerror or str(fault)
            raise DiskError(f"{both('磁盘操作失败', 'the disk refused')}: {reason}") from fault

    return told


async def json_object(request: Request, limit: int = BODY_LIMIT) -> Mapping[str, Json]:
    """The JSON object of a request, of at most ``limit`` bytes; raises BadRequestError and BodyTooLargeError."""
    try:
        data = await read_body(request.scope, request.receive, limit)
    except ClientGoneError:
        data = b""
    try:
        body: Json = await asyncio.to_thread(loads_request, data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{both('请求体不是 JSON', 'the request body is not JSON')}: {error}") from None
    if not isinstance(body, dict):
        raise BadRequestError(both("请求体必须是 JSON 对象", "Invalid request body: a JSON object"))
    return body


def text_of(body: Mapping[str, Json], name: str) -> str:
    """A text that must be there and say something, without blanks around it; raises BadRequestError."""
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadRequestError(both(f"缺少文本 {name}", f"Invalid request body: {name} is a text"))
    return whole(value.strip())


def content_of(body: Mapping[str, Json], name: str = "content") -> str:
    """A text that must be there and may be empty, as it was sent; raises BadRequestError."""
    value = body.get(name)
    if not isinstance(value, str):
        raise BadRequestError(both(f"缺少文本 {name}", f"Invalid request body: {name} is a text"))
    return whole(value)


def whole_number(request: Request, name: str, default: int = 1) -> int:
    """A number of the query, such as that of a page, from 0 to a million; ``default`` for everything else."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 and int(text) >= default else default


def expected_version(request: Request, body: Mapping[str, Json]) -> str | None:
    """The version that the writer has read, as ``expected`` or ``If-Match``; None when it does not say."""
    given = body.get("expected", request.headers.get("if-match"))
    if given is None or given == "*":
        return None
    if not isinstance(given, str):
        raise BadRequestError(both("expected 应为文本", "expected is a text: the SHA-256 of what you read"))
    return given.strip().removeprefix("W/").strip('"').lower()


def etag(fingerprint: str) -> dict[str, str]:
    """The header that names a version."""
    return {"ETag": f'"{fingerprint}"'}
