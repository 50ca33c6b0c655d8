"""The forum: boards and posts, reading, answering, editing, deleting and bringing back (vcp-core 8.2, 8.3)."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import NotFoundError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit
from app.memory.diaries.files import DiaryError
from app.memory.diaries.forum import PostLine
from app.memory.diaries.forum_pictures import Pictures
from app.protocol.forum import floor_of, moment_of
from app.web.admin.bodies import whole_number
from app.web.admin.forum import ForumOfNow
from app.web.panel.frame import URL, Panel, panel_route

PAGE = "forum"
POSTS = 50
"""Posts of one page of the list."""

FLOORS = 20
SHOWN_CHARS = 4000
"""Characters of one text that a page shows; the rest is in the editor."""

MAX_BOARDS = 200
MAX_WORDS = 200

_PICTURE = re.compile(
    r'(?P<mark>!)?<a href="[^"<>]*/pw=[^"/<>]*/images/(?P<name>[^"<>?#]+)[^"<>]*"(?(mark)[^<>]*>(?P<alt>.*?)</a>)'
)
"""A link to a picture of this server in HTML; with a mark in front, all of it, since it was to be shown."""

_TAG = re.compile(r"<[^>]*>|\"")
_TRASH = re.compile(r"[0-9A-Za-z_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody has typed and what is wrong with it."""

    author: str = ""
    text: str = ""
    board: str = ""
    title: str = ""
    fault: str = ""


class ForumPart:
    """The pages of the forum."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._forum = ForumOfNow(panel.services)

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        return (PanelPage(PAGE, PageGroup.MEMORY, "论坛", "Forum", 60, "帖子 回复 板块 posts replies boards VCPForum"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """Reading and writing."""
        return (
            panel_route("/forum", self._list),
            panel_route("/forum/new", self._new),
            panel_route("/forum/new", self._create, "POST"),
            panel_route("/forum/post/{uid}", self._post),
            panel_route("/forum/post/{uid}/edit", self._edit),
            panel_route("/forum/post/{uid}/reply", self._reply, "POST"),
            panel_route("/forum/post/{uid}/delete", self._delete, "POST"),
            panel_route("/forum/restore", self._restore, "POST"),
            panel_route("/forum/pictures/{name:path}", self._picture),
        )

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Posts by their titles and authors."""
        lines = [line for line in await asyncio.to_thread(self._forum().posts) if _has(line, words.lower())]
        return [SearchHit(line.title, line.title, _address(line.uid), line.author) for line in lines[:limit]]

    async def _list(self, request: Request) -> Response:
        lines = await asyncio.to_thread(self._forum().posts)
        board = request.query_params.get("board", "")[:MAX_WORDS]
        words = request.query_params.get("q", "").strip()[:MAX_WORDS]
        boards: dict[str, int] = {}
        for line in lines:
            boards[line.board] = boards.get(line.board, 0) + 1
        fitting = [line for line in lines if (not board or line.board == board) and _has(line, words.lower())]
        pages = max(1, math.ceil(len(fitting) / POSTS))
        page = min(whole_number(request, "page"), pages)
        return self._panel.page(
            request,
            "forum.html",
            PAGE,
            posts=[(line, moment_of(line.timestamp)) for line in fitting[(page - 1) * POSTS : page * POSTS]],
            total=len(lines),
            found=len(fitting),
            boards=list(boards.items())[:MAX_BOARDS],
            board=board,
            words=words,
            page_number=page,
            pages=pages,
            address=f"{URL}/forum?board={quote(board)}&q={quote(words)}&",
            undo=_undo(request),
        )

    async def _new(self, request: Request) -> Response:
        return self._new_page(request, Draft(board=request.query_params.get("board", "")[:MAX_WORDS]))

    def _new_page(self, request: Request, draft: Draft, status: int = 200) -> Response:
        return self._panel.page(request, "forum_new.html", PAGE, status=status, draft=draft)

    async def _create(self, request: Request) -> Response:
        form = await self._panel.form(request)
        draft = Draft(form.get("author", ""), form.get("content", ""), form.get("board", ""), form.get("title", ""))
        try:
            line = await asyncio.to_thread(self._forum().create, draft.board, draft.title, draft.author, draft.text)
        except DiaryError as error:
            kept = Draft(draft.author, draft.text, draft.board, draft.title, error.message)
            return self._new_page(request, kept, error.status)
        await self._forum.changed(line.uid)
        return RedirectResponse(_address(line.uid), 303)

    async def _post(self, request: Request) -> Response:
        return await self._post_page(request, Draft())

    async def _post_page(self, request: Request, draft: Draft, status: int = 200) -> Response:
        read = await asyncio.to_thread(self._forum().read, request.path_params["uid"])
        floors = read.post.floors
        pages = max(1, math.ceil(len(floors) / FLOORS))
        page = min(whole_number(request, "page"), pages)
        return self._panel.page(
            request,
            "forum_post.html",
            PAGE,
            status=status,
            line=read.line,
            text=read.post.text,
            written=moment_of(read.line.timestamp),
            floors=[(floor, moment_of(floor.at)) for floor in floors[(page - 1) * FLOORS : page * FLOORS]],
            count=len(floors),
            fingerprint=read.fingerprint,
            page_number=page,
            pages=pages,
            shown_chars=SHOWN_CHARS,
            draft=draft,
            undo=_undo(request),
            with_pictures=with_pictures,
        )

    async def _edit(self, request: Request) -> Response:
        read = await asyncio.to_thread(self._forum().read, request.path_params["uid"])
        number = whole_number(request, "floor", 0)
        floor = floor_of(read.post, number) if number else None
        if number and floor is None:
            raise NotFoundError(both(f"没有第 {number} 层", f"there is no floor {number}"))
        return self._panel.page(
            request,
            "forum_edit.html",
            PAGE,
            line=read.line,
            floor=number,
            text=read.post.text if floor is None else floor.text,
            author=read.line.author if floor is None else floor.author,
            fingerprint=read.fingerprint,
        )

    async def _reply(self, request: Request) -> Response:
        form = await self._panel.form(request)
        uid = request.path_params["uid"]
        author, text = form.get("author", ""), form.get("content", "")
        try:
            floor = await asyncio.to_thread(self._forum().reply, uid, author, text)
        except DiaryError as error:
            if error.status == 404:
                raise
            return await self._post_page(request, Draft(author, text, fault=error.message), error.status)
        await self._forum.changed(uid)
        page = math.ceil(len((await asyncio.to_thread(self._forum().read, uid)).post.floors) / FLOORS)
        return RedirectResponse(f"{_address(uid)}?page={page}#floor-{floor}", 303)

    async def _delete(self, request: Request) -> Response:
        form = await self._panel.form(request)
        uid, forum, days = request.path_params["uid"], self._forum(), self._forum.keep_days
        number = form.get("floor", "")
        if number:
            floor = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0
            expected = form.get("expected") or None
            trash = await asyncio.to_thread(forum.delete_floor, uid, floor, days, expected)
            await self._forum.changed(uid)
            return RedirectResponse(f"{_address(uid)}?undo={trash or 'none'}", 303)
        filename = (await asyncio.to_thread(forum.read, uid)).line.filename
        trash = await asyncio.to_thread(forum.delete, uid, days)
        self._forum.gone(filename)
        return RedirectResponse(f"{URL}/forum?undo={trash or 'none'}", 303)

    async def _restore(self, request: Request) -> Response:
        form = await self._panel.form(request)
        uid = await asyncio.to_thread(self._forum().restore, form.get("trash", ""))
        await self._forum.changed(uid)
        return RedirectResponse(_address(uid), 303)

    async def _picture(self, request: Request) -> Response:
        pictures = Pictures(self._panel.services.in_force.home / "image", "")
        found = await asyncio.to_thread(pictures.picture, request.path_params["name"])
        if found is None:
            raise NotFoundError(both("没有这张图片", "there is no such picture"))
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
        return Response(found[0], media_type=found[1], headers={**headers, "Cache-Control": "private, max-age=3600"})


def with_pictures(html: Markup) -> Markup:
    """Links to pictures of this server in the HTML of a post: shown, by an address that has no key in it."""
    return Markup(_PICTURE.sub(_shown_picture, html))  # only the address of a link, which was checked, is another one


def _shown_picture(found: re.Match[str]) -> str:
    if any(part in ("", ".", "..") for part in unquote(found["name"]).split("/")):
        return found[0]  # a browser would make another address of it
    address = f"{URL}/forum/pictures/{found['name']}"
    if not found["mark"]:
        return f'<a href="{address}"'
    return f'<img src="{address}" alt="{_TAG.sub("", found["alt"])}" loading="lazy">'


def _address(uid: str) -> str:
    return f"{URL}/forum/post/{uid}"


def _has(line: PostLine, words: str) -> bool:
    text = f"{line.title} {line.author} {line.board} {line.last_reply_by}".lower()
    return all(word in text for word in words.split())


def _undo(request: Request) -> str:
    """What was deleted a moment ago: the id to bring it back, ``none`` when it cannot come back, empty without."""
    given = request.query_params.get("undo", "")
    return given if _TRASH.fullmatch(given) else ""
