"""ImageProcessor: media in user messages becomes text (memory.md 6.3; vcp-core 3.8, 8.2)."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.errors import both
from app.extend import Access, Body, DeclaredRoute, PluginContext, PluginPage, PromptContext
from app.protocol.json_text import strict_json

from .cache_page import CacheError, CachePage
from .description import DescriptionError, Rules, describe
from .media import MEDIA_LIMIT, UNCONFIGURED, Medium, decoded, described, failure, fingerprint, has_media, media_in
from .transcriptions import SHA_PREFIX, ChangedError, Line, Transcriptions, iso, picture_type

PREFIXES = ("/admin_api/multimodal-cache", "/admin_api/image-cache")
BODY_LIMIT = 128 * 1024 * 1024
SECONDS = 570.0
"""For all media of one request; what is not described by then is a failure, and the request goes on."""

OLD_FILES = ("multimodal_cache.json", "image_cache.json")

T = TypeVar("T")


class ImageProcessor:
    """The plugin: a step for media, and the cache's routes."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._rules = Rules.of(context.config)
        megabytes = (context.config.get("MultiModalCacheMegabytes") or "256").strip()
        self._limit = int(megabytes) * 1024 * 1024 if megabytes.isascii() and megabytes.isdigit() else 0
        folder = context.home / "Plugin" / "ImageProcessor"
        self._cache = Transcriptions(
            context.store_dir / "transcriptions.sqlite3",
            [folder / name for name in OLD_FILES],
            self._limit,
            context.clock,
            context.log,
        )

    def wants(self, body: Body, _context: PromptContext) -> bool:
        """Whether there are media, and descriptions are asked for."""
        return self._rules.wanted and has_media(body["messages"])

    async def process(self, body: Body, _context: PromptContext) -> Body:
        """The body with descriptions in place of media; as it is where nobody has asked for descriptions."""
        if not self._rules.wanted:
            return body
        media = media_in(body["messages"])
        if not media:
            return body
        texts = await self._texts(media)
        return {**body, "messages": described(body["messages"], media, texts, self._rules.insert_prompt)}

    async def _texts(self, media: Sequence[Medium]) -> list[str]:
        """A description or a failure for each; the same medium is asked for once."""
        if not self._rules.complete:
            return [UNCONFIGURED] * len(media)
        shas = await asyncio.to_thread(lambda: [_fingerprint(one) for one in media[:MEDIA_LIMIT]])
        wanted = {sha: one for sha, one in reversed(list(zip(shas, media, strict=False))) if not sha.startswith("!")}
        known = await self._cached(lambda: self._cache.known(list(wanted)), {})
        places = asyncio.Semaphore(self._rules.parallel)
        lacking = [sha for sha in dict.fromkeys(shas) if sha in wanted and sha not in known]
        asked = {asyncio.create_task(self._asked(places, sha, wanted[sha])): sha for sha in lacking}
        try:
            done, _ = await asyncio.wait(asked, timeout=SECONDS) if asked else (set(), set())
            known = {**known, **{asked[task]: task.result() for task in done}}
        finally:
            for task in asked:
                task.cancel()  # when the turn has been cancelled, or the time is over
            await asyncio.gather(*asked, return_exceptions=True)
        late = failure("it took too long")
        texts = [failure(sha[1:]) if sha.startswith("!") else known.get(sha, late) for sha in shas]
        return texts + [failure(f"more than {MEDIA_LIMIT} media")] * (len(media) - len(texts))

    async def _asked(self, places: asyncio.Semaphore, sha: str, medium: Medium) -> str:
        async with places:
            try:
                text = await describe(self._context.complete, self._rules, medium.uri)
            except DescriptionError as error:
                self._context.log.warning("a medium could not be described: %s", error)
                return failure(str(error))
        await self._cached(lambda: self._cache.keep(sha, text, medium.prefix, decoded(medium.data)), None)
        return text

    async def _cached(self, work: Callable[[], T], default: T) -> T:
        """What the cache says; one that does not work costs nothing but time."""
        if not self._limit:
            return default
        try:
            return await asyncio.to_thread(work)
        except (sqlite3.Error, OSError) as error:
            self._context.log.warning("the cache of descriptions cannot be used: %s", error)
            return default

    async def stop(self) -> None:
        """Close the cache."""
        await asyncio.to_thread(self._cache.close)

    def routes(self) -> list[DeclaredRoute]:
        """The cache for administrators, under its name and the older one."""
        handlers: tuple[tuple[str, str, Callable[[Request], Any]], ...] = (
            ("GET", "", self._list),
            ("POST", "", self._replace),
            ("POST", "/reidentify", self._reidentify),
            ("POST", "/update", self._update),
            ("GET", "/media/{sha}", self._medium),
            ("DELETE", "/{sha}", self._remove),
        )
        return [
            DeclaredRoute(Route(prefix + path, handler, methods=[method]), Access.ADMIN)
            for prefix in PREFIXES
            for method, path, handler in handlers
        ]

    async def _list(self, _request: Request) -> Response:
        return await self._told(lambda: JSONResponse(self._cache.listed()))

    async def _replace(self, request: Request) -> Response:
        data = await _field(request, "data", dict)
        if isinstance(data, Response):
            return data

        def work() -> Response:
            self._cache.replace(data)
            return JSONResponse({"message": both("缓存已保存", "The cache is saved")})

        return await self._told(work)

    async def _reidentify(self, request: Request) -> Response:
        key = await _field(request, "base64Key", str)
        if isinstance(key, Response):
            return key
        try:
            line = await self._again(key)
        except CacheError as error:
            return _error(error.status, error.told, error.details)
        message = both("已重新转译", "Described anew")
        return JSONResponse({"message": message, "newDescription": line.description, "newTimestamp": iso(line.made)})

    async def _again(self, key: str) -> Line:
        """Have a medium of the cache described anew. Raises CacheError."""
        try:
            entry = await asyncio.to_thread(self._cache.entry, key)
        except (ValueError, sqlite3.Error, OSError) as error:
            raise CacheError(400, both("无法识别这个键", "there is no such key"), str(error)) from error
        if entry is None or entry.media is None:
            raise CacheError(404, both("缓存里没有这份数据", "this medium is not in the cache"))
        if not self._rules.complete:
            raise CacheError(500, UNCONFIGURED)
        media = entry.media
        uri = await asyncio.to_thread(_uri, entry.mime, media)
        try:
            text = await describe(self._context.complete, self._rules, uri)
        except DescriptionError as error:
            raise CacheError(500, both("重新转译失败", "it could not be described anew"), str(error)) from error
        now = self._context.clock()

        def work() -> Line:
            self._cache.keep(entry.sha, text, entry.mime, media)
            return self._cache.line(entry.sha) or Line(entry.sha, text, entry.mime, now, now, len(media))

        try:
            return await asyncio.to_thread(work)
        except (sqlite3.Error, OSError) as error:
            raise CacheError(500, both("缓存不可用", "the cache cannot be used"), str(error)) from error

    async def _update(self, request: Request) -> Response:
        body = await _body(request)
        if isinstance(body, Response):
            return body
        sha, text, expected = body.get("hash"), body.get("description"), body.get("expected")
        if not isinstance(sha, str) or not isinstance(text, str) or not isinstance(expected, str | None):
            return _error(400, both("缺少 hash 或 description", "hash or description is missing"))

        def work() -> Response:
            try:
                if not self._cache.describe(sha.removeprefix(SHA_PREFIX), text, expected):
                    return _error(404, both("缓存里没有这份数据", "this medium is not in the cache"))
            except ChangedError:
                return _error(409, both("描述在此期间被改动", "the description was changed meanwhile"))
            return JSONResponse({"message": both("描述已保存", "The description is saved")})

        return await self._told(work)

    async def _remove(self, request: Request) -> Response:
        sha = request.path_params["sha"].removeprefix(SHA_PREFIX)

        def work() -> Response:
            if not self._cache.remove(sha):
                return _error(404, both("缓存里没有这份数据", "this medium is not in the cache"))
            return JSONResponse({"message": both("已删除", "Deleted")})

        return await self._told(work)

    async def _medium(self, request: Request) -> Response:
        sha = request.path_params["sha"]

        def work() -> Response:
            entry = self._cache.entry(SHA_PREFIX + sha)
            if entry is None or entry.media is None:
                return _error(404, both("缓存里没有这份数据", "this medium is not in the cache"))
            kind = picture_type(entry.media)
            headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
            if kind is None:  # a browser must not run or play what it may take for a page
                headers["Content-Disposition"] = "attachment"
            return Response(entry.media, media_type=kind or "application/octet-stream", headers=headers)

        return await self._told(work)

    def pages(self) -> list[PluginPage]:
        """The cache in the admin panel."""
        return [CachePage(self._cache, self._again, self._context.zone, lambda: bool(self._limit)).declared()]

    async def _told(self, work: Callable[[], Response]) -> Response:
        try:
            return await asyncio.to_thread(work)
        except ValueError as error:
            return _error(400, both("数据格式不对", "the data cannot be taken"), str(error))
        except (sqlite3.Error, OSError) as error:
            return _error(500, both("缓存不可用", "the cache cannot be used"), str(error))


def _fingerprint(medium: Medium) -> str:
    """The fingerprint; of one that cannot be decoded the reason, after ``!``."""
    try:
        return fingerprint(decoded(medium.data))
    except ValueError as error:
        return f"!{error}"


def _uri(mime: str, media: bytes) -> str:
    return f"{mime}base64,{base64.b64encode(media).decode('ascii')}"


async def _field(request: Request, name: str, kind: type[T]) -> T | Response:
    """A field of the request's JSON object, or the answer that says what is wrong with it."""
    body = await _body(request)
    if isinstance(body, Response):
        return body
    value = body.get(name)
    if not isinstance(value, kind):
        return _error(400, both(f"缺少 {name}", f"{name} is missing or of the wrong type"))
    return value


async def _body(request: Request) -> Mapping[str, Any] | Response:
    data = bytearray()
    async for block in request.stream():
        data += block
        if len(data) > BODY_LIMIT:
            return _error(413, both(f"请求体超过 {BODY_LIMIT} 字节", f"the body is over {BODY_LIMIT} bytes"))
    try:
        body = await asyncio.to_thread(lambda: strict_json(bytes(data).decode("utf-8-sig")))
    except (ValueError, RecursionError):
        return _error(400, both("请求体不是 JSON", "the request body is not JSON"))
    return body if isinstance(body, dict) else {}


def _error(status: int, told: str, details: str = "") -> Response:
    return JSONResponse({"error": told, **({"details": details} if details else {})}, status)


def create(context: PluginContext) -> ImageProcessor:
    """The plugin's object."""
    return ImageProcessor(context)
