"""The forum for administrators: ``/admin_api/forum`` (vcp-core 8.2), what the plugin VCPForum writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.config.edited_file import EditConflictError
from app.errors import BadRequestError, VcpError, both
from app.extend import Access, DeclaredRoute, Json, NotesChanged
from app.memory.diaries.forum import FORUM, Forum, PostLine
from app.protocol.forum import floor_of
from app.services import Services
from app.web.admin.bodies import Answer, content_of, etag, expected_version, json_object, text_of
from app.web.errors import JsonResponse

PREFIX = "/admin_api/forum"
BODY_LIMIT = 8 * 1024 * 1024
"""Bytes of a request body: a text of 1 MiB, escaped."""


class ForumOfNow:
    """The forum of the folder that is in force; what its lists have read is kept while that stays."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._forum: Forum | None = None

    def __call__(self) -> Forum:
        """The forum."""
        in_force = self._services.in_force
        if self._forum is None or self._forum.root != in_force.notebooks:
            self._forum = Forum(in_force.home, in_force.notebooks)
        return self._forum

    @property
    def keep_days(self) -> int:
        """How long what was deleted can come back."""
        return self._services.settings.memory_trash_days

    async def changed(self, uid: str) -> None:
        """Tell who looks after notes that a post is another one."""
        try:
            name = (await asyncio.to_thread(self().read, uid)).line.filename
        except (VcpError, OSError):
            return  # it went away again, and whoever did that tells it
        self._services.events.publish(NotesChanged((f"{FORUM}/{name}",)))

    def gone(self, filename: str) -> None:
        """Tell who looks after notes that a post's file is gone."""
        self._services.events.publish(NotesChanged((f"{FORUM}/{filename}",)))


class ForumRoutes:
    """The ``RouteSource`` of the forum."""

    def __init__(self, services: Services, forum: ForumOfNow | None = None) -> None:
        self._forum = forum or ForumOfNow(services)
        handlers: tuple[tuple[str, str, Answer], ...] = (
            ("GET", "/posts", self._posts),
            ("POST", "/posts", self._create),
            ("GET", "/post/{uid}", self._post),
            ("POST", "/reply/{uid}", self._reply),
            ("DELETE", "/post/{uid}", self._delete),
            ("PATCH", "/post/{uid}", self._edit),
            ("POST", "/post/{uid}", self._edit),
            ("POST", "/restore", self._restore),
        )
        self._routes = tuple(
            DeclaredRoute(Route(PREFIX + path, _telling(handler), methods=[method]), Access.ADMIN)
            for method, path, handler in handlers
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    async def _posts(self, _request: Request) -> Response:
        lines = await asyncio.to_thread(self._forum().posts)
        return JsonResponse({"success": True, "posts": [_line(line) for line in lines]})

    async def _create(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        maid = text_of(body, "author" if "author" in body and "maid" not in body else "maid")
        board, title = text_of(body, "board"), text_of(body, "title")
        line = await asyncio.to_thread(self._forum().create, board, title, maid, content_of(body))
        await self._forum.changed(line.uid)
        message = both("帖子已发布", "The post is written")
        return JsonResponse({"success": True, "message": message, "uid": line.uid, "filename": line.filename})

    async def _post(self, request: Request) -> Response:
        read = await asyncio.to_thread(self._forum().read, request.path_params["uid"])
        return JsonResponse({"success": True, "content": read.content}, headers=etag(read.fingerprint))

    async def _reply(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        uid = request.path_params["uid"]
        floor = await asyncio.to_thread(self._forum().reply, uid, text_of(body, "maid"), content_of(body))
        await self._forum.changed(uid)
        return JsonResponse({"success": True, "message": both("回复已发布", "The reply is written"), "floor": floor})

    async def _edit(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        uid, floor, expected = request.path_params["uid"], floor_in(body), expected_version(request, body)
        try:
            saved = await asyncio.to_thread(self._forum().edit, uid, content_of(body), floor, expected)
        except EditConflictError as error:
            error.content = await asyncio.to_thread(self._text, uid, floor)  # of what is edited, not of the whole file
            raise
        await self._forum.changed(uid)
        return JsonResponse(
            {"success": True, "message": both("修改已保存", "The change is saved")}, headers=etag(saved)
        )

    def _text(self, uid: str, floor: int | None) -> str:
        post = self._forum().read(uid).post
        if floor is None:
            return post.text
        found = floor_of(post, floor)
        return found.text if found is not None else ""

    async def _delete(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT) if await _has_body(request) else {}
        uid, floor = request.path_params["uid"], floor_in(body)
        forum, days = self._forum(), self._forum.keep_days
        if floor is None:
            filename = (await asyncio.to_thread(forum.read, uid)).line.filename
            trash = await asyncio.to_thread(forum.delete, uid, days)
            self._forum.gone(filename)
            message = both("帖子已删除", "The post is deleted")
        else:
            trash = await asyncio.to_thread(forum.delete_floor, uid, floor, days, expected_version(request, body))
            await self._forum.changed(uid)
            message = both(f"第 {floor} 层已删除", f"Floor {floor} is deleted")
        return JsonResponse({"success": True, "message": message, **({"trash": trash} if trash else {})})

    async def _restore(self, request: Request) -> Response:
        trash = text_of(await json_object(request, BODY_LIMIT), "trash")
        uid = await asyncio.to_thread(self._forum().restore, trash)
        await self._forum.changed(uid)
        return JsonResponse({"success": True, "message": both("已恢复", "It is back"), "uid": uid})


def floor_in(body: Mapping[str, Json]) -> int | None:
    """The number of a floor, also written as text; None without one. Raises BadRequestError for all else."""
    value = body.get("floor")
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**9:
        raise BadRequestError(both("floor 应为楼层号（从 1 开始）", "floor is the number of a floor, from 1 on"))
    return value


async def _has_body(request: Request) -> bool:
    """Whether a DELETE brings anything; most clients send none."""
    length = request.headers.get("content-length", "")
    return length not in ("", "0") or "transfer-encoding" in request.headers


def _telling(answer: Answer) -> Answer:
    """``answer`` in the shape of these routes: every error has ``success``, a conflict has both versions."""

    async def told(request: Request) -> Response:
        try:
            return await answer(request)
        except EditConflictError as error:
            versions = {"current": error.current, "yours": error.yours, "content": error.content}
            return JsonResponse({"success": False, "error": error.message, **versions}, error.status)
        except VcpError as error:
            return JsonResponse({"success": False, "error": error.message}, error.status)
        except OSError as fault:
            reason = f"{both('磁盘操作失败', 'the disk refused')}: {fault.strerror or fault}"
            return JsonResponse({"success": False, "error": reason}, 500)

    return told


def _line(line: PostLine) -> dict[str, Json]:
    return {
        "board": line.board,
        "title": line.title,
        "author": line.author,
        "timestamp": line.timestamp,
        "uid": line.uid,
        "filename": line.filename,
        "lastReplyBy": line.last_reply_by or None,
        "lastReplyAt": line.last_reply_at or None,
    }
