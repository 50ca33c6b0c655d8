"""``POST /plugin-callback/…``: background plugins tell what came of their tasks (spec 1.10; D19, B3, B4).

The path is ``/plugin-callback/<plugin>/<task id>``, with the token of the call before the plugin's name where the
plugin was given one. Whoever may call is decided here, for the gate lets this route pass.
"""

from __future__ import annotations

import asyncio
import logging
import re

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import BadRequestError, UnauthorizedError, VcpError, both
from app.extend import BackgroundResult, Json, ToolPush
from app.protocol.background_results import CALLBACK_DONE, CALLBACK_NO_PLUGIN, result_file
from app.protocol.json_text import strict_json
from app.protocol.loopback import is_loopback
from app.services import Services
from app.web.blocking import AddressBlocks
from app.web.body import ClientGoneError, read_body
from app.web.errors import JsonResponse
from app.web.gate import CLIENT_IP, UNAUTHORIZED, bears_key
from app.web.openapi import described

log = logging.getLogger(__name__)

CALLBACK_PATHS = ("/plugin-callback/{plugin}/{task}", "/plugin-callback/{token}/{plugin}/{task}")

_ENCODED_SEPARATOR = re.compile(rb"%(?:2f|5c)", re.IGNORECASE)
_FORWARDED = ("x-forwarded-for", "x-real-ip", "forwarded")

_DESCRIPTION = described("application/json", {}, "The result was stored", (400, 404, 408, 413, 415, 500))


def plugin_callback_routes(services: Services, blocks: AddressBlocks) -> APIRouter:
    """The routes of this group; they check access themselves."""
    router = APIRouter()

    @router.post(CALLBACK_PATHS[0], summary="A background plugin tells its result", openapi_extra=_DESCRIPTION)
    async def callback(request: Request, plugin: str, task: str) -> Response:
        return await take(request, "", plugin, task)

    @router.post(CALLBACK_PATHS[1], summary="The same, with the token of a call", openapi_extra=_DESCRIPTION)
    async def callback_with_token(request: Request, token: str, plugin: str, task: str) -> Response:
        return await take(request, token, plugin, task)

    async def take(request: Request, token: str, plugin: str, task: str) -> Response:
        if not await _allowed(services, request, token, plugin, task):
            if token or request.headers.get("authorization"):
                blocks.wrong_key(request.scope[CLIENT_IP])
            else:  # one that tries task after task is guessing
                blocks.wrong_stored_key(request.scope[CLIENT_IP], f"{plugin}\0{task}".encode("utf-8", "replace"))
            raise UnauthorizedError(UNAUTHORIZED)
        known, push = _plugin(services, plugin)
        if not known:
            return JsonResponse(CALLBACK_NO_PLUGIN, 404)
        try:
            _check_names(request, plugin, task)
            body = await _body(request, services.settings.callback_body_limit_mb * 1024 * 1024)
            await services.background_results.store(plugin, task, body)
        except ClientGoneError:
            return Response(status_code=400)
        except VcpError as error:
            return _refused(error.message, error.status)
        except OSError as error:
            log.error("the result of task %r of plugin %s cannot be stored: %s", task, plugin, error)
            return _refused(both("结果无法保存，请稍后重试", "the result cannot be stored, try again later"), 500)
        muted = services.callbacks.muted(token, plugin, task) or services.nodes.muted_task(plugin, task)
        services.events.publish(BackgroundResult(plugin, task, body, None if muted else push))
        return JsonResponse(CALLBACK_DONE)

    return router


def _refused(message: str, status: int) -> Response:
    return JsonResponse({"status": "error", "message": message}, status)


async def _allowed(services: Services, request: Request, token: str, plugin: str, task: str) -> bool:
    """D19: this machine, connected nodes, calls and tasks that are known; and whoever has the key."""
    if _is_local(request) or request.scope[CLIENT_IP] in services.nodes.addresses():
        return True
    if bears_key(request.headers, services.key):
        return True
    tokens = services.callback_tokens
    if bool(token) and await asyncio.to_thread(tokens.accepts, token, plugin, task):
        return True
    if services.nodes.knows_task(plugin, task):
        return True
    return await asyncio.to_thread(tokens.knows, plugin, task)


def _is_local(request: Request) -> bool:
    """Whether a program of this machine calls.

    A proxy in front of us is on this machine too, and so is the browser of somebody who looks at a hostile page: what
    bears the mark of either is not taken for a program.
    """
    headers = request.headers
    return (
        is_loopback(request.scope[CLIENT_IP])
        and "origin" not in headers
        and not any(name in headers for name in _FORWARDED)
    )


def _plugin(services: Services, name: str) -> tuple[bool, ToolPush | None]:
    """Whether there is a plugin of this name, here or at a node (D19), and what its manifest says of pushes."""
    for plugin in services.found_plugins.plugins:
        if plugin.name == name:
            return True, plugin.manifest.push
    far = services.nodes.tools().get(name)
    return far is not None, None if far is None else far.push


def _check_names(request: Request, plugin: str, task: str) -> None:
    """Raise BadRequestError for what is no plain file name, however its separators are written (B3)."""
    if _ENCODED_SEPARATOR.search(request.scope.get("raw_path") or b"") or result_file(plugin, task) is None:
        raise BadRequestError(
            both(
                "任务 ID 不能用作文件名：不能含分隔符、控制字符，不能以点开头或结尾，也不能过长",
                "the task id is no plain file name: it must not hold separators or control characters, begin or end "
                "with a dot, or be too long",
            )
        )


async def _body(request: Request, limit: int) -> Json:
    data = await read_body(request.scope, request.receive, limit)

    def parsed() -> Json:
        return strict_json(data.decode("utf-8-sig"))

    try:
        return await asyncio.to_thread(parsed)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{both('请求体不是 JSON', 'the request body is not JSON')}: {error}") from None
