"""Files that a plugin does not have: fetched where the client is, and handed over in a second attempt (spec 5.9).

A plugin that answers ``FILE_NOT_FOUND_LOCALLY`` with a ``fileUrl`` is called again, with the file's content as a data
URI in the place of the argument that named it. Who can fetch a file (a node beside the client) is a ``FileFetcher``.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import mimetypes
import re
import stat
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from app.config.durable import write_atomic
from app.errors import VcpError, both
from app.extend import CallContext, ErrorKind, FileFetcher, Json, ToolCall, ToolResult

log = logging.getLogger(__name__)

T = TypeVar("T")

MISSING = "FILE_NOT_FOUND_LOCALLY"
"""The ``code`` of a plugin that lacks a file."""

FETCH_SECONDS = 60.0
AGAIN_SECONDS = 5.0
"""For so long after it was asked for, a file that is still not here is not asked for again."""

FAILED_SECONDS = 30.0
"""For so long a fetch that failed is not tried again."""

FILES_IN_A_CALL = 16
FILE_BYTES = 64 * 1024 * 1024
CACHE_BYTES = 1024 * 1024 * 1024
CACHE_FILES = 2_000
REMEMBERED = 1_000
URL_CHARS = 8_192

_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")
_CACHED = re.compile(r"[0-9a-f]{64}(\.[A-Za-z0-9]{1,16})?")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


_Wish = tuple[str, str | None]
"""Which file somebody wants, and the client that may have it."""


class FetchError(VcpError):
    """A file cannot be had from anybody."""

    code = "file_fetch"


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """Content and media type of a file."""

    content: bytes
    media_type: str

    def data_uri(self) -> str:
        """The file as one text."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.content).decode('ascii')}"


class MissingFiles:
    """Fetches files of clients, keeps them in ``folder`` (``.file_cache``), and calls plugins again with them.

    ``fetchers`` are asked in order. ``monotonic`` is a clock in seconds that never goes back.
    """

    def __init__(self, folder: Path, fetchers: Sequence[FileFetcher], monotonic: Callable[[], float]) -> None:
        self._folder = folder
        self._fetchers = tuple(fetchers)
        self._monotonic = monotonic
        self._asked: dict[_Wish, float] = {}
        self._failed: dict[_Wish, tuple[float, str]] = {}
        self._running: dict[_Wish, asyncio.Task[FetchedFile]] = {}

    async def stop(self) -> None:
        """End the fetches that run."""
        running = tuple(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def call(
        self, attempt: Callable[[ToolCall], Awaitable[ToolResult]], call: ToolCall, context: CallContext
    ) -> ToolResult:
        """Run ``attempt`` with the call, and again with each file that it turns out to lack.

        Without a fetcher, or a client whose address is known, the plugin's own error is the result. Raises what
        ``attempt`` raises.
        """
        fetched: set[str] = set()
        while True:
            result = await attempt(call)
            url = missing_file(result)
            if url is None or not self._fetchers or context.client_ip is None:
                return result
            try:
                if url in fetched or len(fetched) >= FILES_IN_A_CALL:
                    raise FetchError(
                        both("插件重复请求同一文件", "the plugin asked for it again, or for too many files")
                    )
                fetched.add(url)
                file = await self._fetch(url, context)
                uri = await asyncio.to_thread(file.data_uri)
            except FetchError as error:
                return replace(
                    result,
                    error_kind=ErrorKind.PLUGIN,
                    message=f"Plugin reported local file not found, but remote fetch failed: {error.message}",
                    original_error=result.message,
                )
            call = with_file(call, result, uri)

    async def _fetch(self, url: str, context: CallContext) -> FetchedFile:
        """The file, from the cache or from whoever has it; calls that want the same one at a time share the work."""
        key = (url, context.client_ip)
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._found(url, context))
            self._running[key] = task
            task.add_done_callback(lambda done: self._done(key, done))
        try:
            async with asyncio.timeout_at(context.deadline):
                return await asyncio.shield(task)  # it ends by itself in bounded time; others may wait for it too
        except TimeoutError as error:
            raise FetchError(both("调用的时限已到", "the time of the call is over")) from error

    def _done(self, key: _Wish, task: asyncio.Task[FetchedFile]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # told to whoever waits; nobody may be left who does

    async def _found(self, url: str, context: CallContext) -> FetchedFile:
        path = self._folder / cache_name(url)
        cached = await asyncio.to_thread(_read, path)
        if cached is not None:
            return FetchedFile(cached, media_type_of(url))
        key, now = (url, context.client_ip), self._monotonic()
        failed = self._failed.get(key)
        if failed is not None and now - failed[0] < FAILED_SECONDS:
            raise FetchError(failed[1])
        asked = self._asked.get(key)
        if asked is not None and now - asked < AGAIN_SECONDS:
            raise FetchError(
                both("同一文件在 5 秒内被重复请求", f"the same file was asked for within {AGAIN_SECONDS:g} s already")
            )
        _remember(self._asked, key, now)
        try:
            file = await self._from_somebody(url, context)
        except FetchError as error:
            _remember(self._failed, key, (self._monotonic(), error.message))
            raise
        try:
            await asyncio.to_thread(_keep, path, file.content)
        except OSError as error:
            log.warning("a file of a client cannot be kept in %s: %s", self._folder, error.strerror or error)
        return file

    async def _from_somebody(self, url: str, context: CallContext) -> FetchedFile:
        """The file from the first fetcher that has it. Raises FetchError."""
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                for fetcher in self._fetchers:
                    found = await fetcher.fetch(url, context)
                    if found is not None:
                        return _checked(found, url)
        except FetchError:
            raise
        except TimeoutError as error:
            raise FetchError(
                both(f"{FETCH_SECONDS:g} 秒内没有取到文件", f"the file did not come within {FETCH_SECONDS:g} s")
            ) from error
        except VcpError as error:
            raise FetchError(error.message) from error
        except Exception as error:  # the plugin boundary: a fetcher's fault must not end the turn
            log.exception("fetching a file for a plugin failed")
            raise FetchError(
                both("获取文件时出错", "fetching the file failed") + f" ({type(error).__name__})"
            ) from error
        raise FetchError(both("没有节点拥有该文件", "nobody who has the file is connected"))


def missing_file(result: ToolResult) -> str | None:
    """The ``file://`` address that a plugin says it lacks, or None for every other result."""
    fields = result.structured
    if result.error_kind is not ErrorKind.PLUGIN or not isinstance(fields, dict) or fields.get("code") != MISSING:
        return None
    url = fields.get("fileUrl")
    sound = isinstance(url, str) and url[:7].lower() == "file://" and len(url) <= URL_CHARS and url.isprintable()
    return url if sound else None


def with_file(call: ToolCall, result: ToolResult, uri: str) -> ToolCall:
    """The call with the file's content in the place of the argument that named the file (O17, O18)."""
    fields = result.structured if isinstance(result.structured, dict) else {}
    named = fields.get("failedParameter")
    if isinstance(named, str) and named in call.arguments:
        removed, added = named, "image_base64_" + named.replace("image_url_", "", 1)
    else:
        removed, added = "image_url", "image_base64"
    arguments: dict[str, Json] = {name: value for name, value in call.arguments.items() if name != removed}
    texts = {name: text for name, text in call.texts.items() if name not in (removed, added)}
    return replace(call, arguments={**arguments, added: uri}, texts=texts)


def cache_name(url: str) -> str:
    """The name of a file's copy: the digest of its address and its own ending, if that is a plain one."""
    suffix = Path(_path(url)).suffix
    return hashlib.sha256(url.encode()).hexdigest() + (suffix if _SUFFIX.fullmatch(suffix) else "")


def media_type_of(url: str) -> str:
    """The media type that the ending of an address stands for."""
    return mimetypes.guess_type(_path(url))[0] or "application/octet-stream"


def _path(url: str) -> str:
    try:
        return unquote(urlsplit(url).path)
    except ValueError:  # brackets where a host stands
        return ""


def _checked(found: tuple[bytes, str], url: str) -> FetchedFile:
    content, media_type = found
    if len(content) > FILE_BYTES:
        raise FetchError(
            both(f"文件超过 {FILE_BYTES} 字节", f"the file has {len(content)} bytes, {FILE_BYTES} are allowed")
        )
    return FetchedFile(content, media_type if _MEDIA_TYPE.fullmatch(media_type) else media_type_of(url))


def _remember(memory: dict[_Wish, T], wish: _Wish, value: T) -> None:
    memory.pop(wish, None)
    memory[wish] = value
    while len(memory) > REMEMBERED:
        del memory[next(iter(memory))]


def _read(path: Path) -> bytes | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _keep(path: Path, content: bytes) -> None:
    """Write the copy for its owner alone, and remove the oldest ones while there are too many. Raises OSError."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_atomic(path, content, mode=0o600)
    copies = [(entry.stat(), entry) for entry in path.parent.iterdir() if _CACHED.fullmatch(entry.name)]
    copies.sort(key=lambda copy: copy[0].st_mtime_ns, reverse=True)
    size = 0
    for index, (status, entry) in enumerate(copies):
        size += status.st_size
        if entry != path and (index >= CACHE_FILES or size > CACHE_BYTES):
            with suppress(FileNotFoundError):
                entry.unlink()
