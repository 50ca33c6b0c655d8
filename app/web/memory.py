"""``/v1/memory/…``: how the index of notes is, checking it, making it anew (memory.md 11.3, 11.31)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.chat.payload import loads_request
from app.errors import BadRequestError, both
from app.extend import Json
from app.services import Services
from app.web.body import ClientGoneError, read_body
from app.web.errors import JsonResponse
from app.web.openapi import described

BODY_LIMIT = 64 * 1024

_CHECK = described(
    "application/json",
    {"type": "object", "properties": {"repair": {"type": "boolean"}}},
    "Whether what is wrong is made anew",
    (400, 404, 408, 413, 503),
)

_REBUILD = described("application/json", {"type": "object"}, "Nothing has to be said", (404, 503))
_REEMBED = described(
    "application/json",
    {"type": "object", "properties": {"confirm": {"type": "boolean"}}},
    "Whether the change that waits may begin",
    (400, 404, 408, 413),
)

_BENCH = described(
    "application/json",
    {"type": "object", "properties": {"questions": {"type": "integer"}, "seed": {"type": "integer"}}},
    "How many sentences of notes are asked (100, at most 500), and which ones",
    (400, 404, 408, 413, 503),
)

_IMPORT = described(
    "application/json",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "confirm": {"type": "boolean"}},
    },
    "A file or a folder of the server (without: KNOWLEDGEBASE_STORE_PATH), and whether anything is written",
    (400, 404, 408, 413, 503),
)


def memory_routes(services: Services) -> APIRouter:
    """The routes of this group."""
    router = APIRouter()
    running = asyncio.Lock()  # a check reads everything: one at a time is enough

    @router.get("/v1/memory/status", summary="The index of notes: how much is in it, what waits, what is wrong")
    async def status() -> Response:
        return JsonResponse(await services.memory.index.status() | {"vectors": services.memory.vectors.status()})

    @router.post("/v1/memory/check", summary="Compare the index with itself and with the files", openapi_extra=_CHECK)
    async def check(request: Request) -> Response:
        repair = _yes(await _fields(request), "repair")
        async with running:
            return JsonResponse(await services.memory.index.check(repair=repair))

    @router.post("/v1/memory/rebuild", summary="Make the index of notes anew from the files", openapi_extra=_REBUILD)
    async def rebuild() -> Response:
        async with running:
            return JsonResponse(await services.memory.index.rebuild())

    @router.post(
        "/v1/memory/reembed",
        summary="What a change of the embedding model would cost, and the word that it may",
        openapi_extra=_REEMBED,
    )
    async def reembed(request: Request) -> Response:
        wanted = await _fields(request)
        return JsonResponse(services.memory.vectors.reembed(confirm=_yes(wanted, "confirm")))

    @router.post(
        "/v1/memory/import",
        summary="Take over vectors of an existing VectorStore; without confirm only tell what would be",
        openapi_extra=_IMPORT,
    )
    async def import_store(request: Request) -> Response:
        wanted = await _fields(request)
        path = wanted.get("path", "")
        if not isinstance(path, str):
            raise BadRequestError(both("path 须为路径", "path has to be a path"))
        return JsonResponse(await services.memory.vectors.import_store(path, confirm=_yes(wanted, "confirm")))

    @router.post(
        "/v1/memory/bench",
        summary="How well and how quickly the notes are found, asked with sentences of theirs",
        openapi_extra=_BENCH,
    )
    async def bench(request: Request) -> Response:
        wanted = await _fields(request)
        questions, seed = _number(wanted, "questions", 100), _number(wanted, "seed", 1)
        async with running:
            return JsonResponse(await services.memory.measured(questions, seed))

    return router


async def _fields(request: Request) -> Mapping[str, Json]:
    """The object in a body, empty for none. Raises BadRequestError, also for a client that is gone."""
    try:
        body = await read_body(request.scope, request.receive, BODY_LIMIT)
    except ClientGoneError as error:
        raise BadRequestError(both("客户端已断开", "the client is gone")) from error
    try:
        wanted = loads_request(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise BadRequestError(both("请求体不是 JSON", "the body is no JSON")) from error
    if not isinstance(wanted, dict):
        raise BadRequestError(both("请求体须为对象", "the body has to be an object"))
    return wanted


def _yes(wanted: Mapping[str, Json], name: str) -> bool:
    value = wanted.get(name, False)
    if not isinstance(value, bool):
        raise BadRequestError(both(f"{name} 须为 true 或 false", f"{name} has to be true or false"))
    return value


def _number(wanted: Mapping[str, Json], name: str, default: int) -> int:
    value = wanted.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise BadRequestError(both(f"{name} 须为正整数", f"{name} has to be a whole number above 0"))
    return value
