"""ImageProcessor: media in user messages becomes text (memory.md 6.3; vcp-core 3.8, 8.2)."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.errors import both
from app.extend import Access, Body, DeclaredRoute, PluginContext, PromptContext
from app.protocol.json_text import strict_json

from .description import DescriptionError, Rules, describe
from .media import MEDIA_LIMIT, UNCONFIGURED, Medium, decoded, described, failure, fingerprint, media_in
from .transcriptions import Transcriptions, iso

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
            entry = await asyncio.to_thread(self._cache.entry, key)
        except (ValueError, sqlite3.Error, OSError) as error:
            return _error(400, both("无法识别这个键", "there is no such key"), str(error))
        if entry is None or entry.media is None:
            return _error(404, both("缓存里没有这份数据", "this medium is not in the cache"))
        if not self._rules.complete:
            return _error(500, UNCONFIGURED)
        uri = await asyncio.to_thread(_uri, entry.mime, entry.media)
        try:
            text = await describe(self._context.complete, self._rules, uri)
        except DescriptionError as error:
            return _error(500, both("重新转译失败", "it could not be described anew"), str(error))
        media = entry.media

        def work() -> Response:
            self._cache.keep(entry.sha, text, entry.mime, media)
            kept = self._cache.entry(key)
            made = self._context.clock() if kept is None else kept.made
            message = both("已重新转译", "Described anew")
            return JSONResponse({"message": message, "newDescription": text, "newTimestamp": iso(made)})

        return await self._told(work)

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
    data = bytearray()
    async for block in request.stream():
        data += block
        if len(data) > BODY_LIMIT:
            return _error(413, both(f"请求体超过 {BODY_LIMIT} 字节", f"the body is over {BODY_LIMIT} bytes"))
    try:
        body = await asyncio.to_thread(lambda: strict_json(bytes(data).decode("utf-8-sig")))
    except (ValueError, RecursionError):
        return _error(400, both("请求体不是 JSON", "the request body is not JSON"))
    value = body.get(name) if isinstance(body, dict) else None
    if not isinstance(value, kind):
        return _error(400, both(f"缺少 {name}", f"{name} is missing or of the wrong type"))
    return value


def _error(status: int, told: str, details: str = "") -> Response:
    return JSONResponse({"error": told, **({"details": details} if details else {})}, status)


def create(context: PluginContext) -> ImageProcessor:
    """The plugin's object."""
    return ImageProcessor(context)
