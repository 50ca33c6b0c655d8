"""Files that a plugin does not have: fetched where the client is, and handed over in a second attempt (spec 5.9).

A plugin that answers ``FILE_NOT_FOUND_LOCALLY`` with a ``fileUrl`` is called again, with the file's content as a data
URI in the place of the argument that named it. The plugin itself has looked on this machine first. Who can fetch a file
(a node beside the client) is a ``FileFetcher``; a fetch calls no tool, so none leads to another.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import mimetypes
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from app.errors import VcpError, both
from app.extend import CallContext, Clock, ErrorKind, FetchedFile, FileCopy, FileFetcher, Json, ToolCall, ToolResult
from app.plugins.file_copies import Copy, FileCopies
from app.protocol.file_urls import host_of, is_file_url, path_of

log = logging.getLogger(__name__)

T = TypeVar("T")

MISSING = "FILE_NOT_FOUND_LOCALLY"
"""The ``code`` of a plugin that lacks a file."""

FETCH_SECONDS = 300.0
"""Longest time of one fetch, whoever is asked and in however many pieces the file comes."""

AGAIN_SECONDS = 5.0
"""For so long after it was asked for, a file that is still not here is not asked for again."""

FAILED_SECONDS = 30.0
"""For so long a fetch that failed is not tried again."""

FILES_IN_A_CALL = 16
FILE_BYTES = 64 * 1024 * 1024
REMEMBERED = 1_000

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


_Wish = tuple[str, str]
"""Which file somebody wants, and the client that may have it."""


class FetchError(VcpError):
    """A file cannot be had from anybody."""

    code = "file_fetch"


class MissingFiles:
    """Fetches files of clients, keeps them in ``folder`` (``.file_cache``), and calls plugins again with them.

    ``fetchers`` are asked in order. ``monotonic`` is a clock in seconds that never goes back, ``clock`` one in seconds
    since the epoch.
    """

    def __init__(
        self, folder: Path, fetchers: Sequence[FileFetcher], monotonic: Callable[[], float], clock: Clock
    ) -> None:
        self._copies = FileCopies(folder, clock, lambda: FILE_BYTES)
        self._folder = folder
        self._fetchers = tuple(fetchers)
        self._monotonic = monotonic
        self._asked: dict[_Wish, float] = {}
        self._failed: dict[_Wish, tuple[float, str]] = {}
        self._running: dict[_Wish, asyncio.Task[Copy]] = {}

    async def start(self) -> None:
        """Remove copies that are too old."""
        try:
            await asyncio.to_thread(self._copies.sweep)
        except OSError as error:
            log.warning("old copies in %s cannot be removed: %s", self._folder, error.strerror or error)

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

        Without a fetcher, or a client whose address is known or a machine that the file's address names, the plugin's
        own error is the result. Raises what ``attempt`` raises.
        """
        fetched: set[str] = set()
        while True:
            result = await attempt(call)
            url = missing_file(result)
            if url is None or not self._fetchers or (context.client_ip is None and not host_of(url)):
                return result  # whose file it is nobody can tell
            try:
                if url in fetched or len(fetched) >= FILES_IN_A_CALL:
                    raise FetchError(
                        both("插件重复请求同一文件", "the plugin asked for it again, or for too many files")
                    )
                fetched.add(url)
                copy = await self._fetch(url, context)
                uri = await asyncio.to_thread(data_uri, copy)
            except FetchError as error:
                return replace(
                    result,
                    error_kind=ErrorKind.PLUGIN,
                    message=f"Plugin reported local file not found, but remote fetch failed: {error.message}",
                    original_error=result.message,
                )
            call = with_file(call, result, uri)

    async def _fetch(self, url: str, context: CallContext) -> Copy:
        """The file, from the cache or from whoever has it; calls that want the same one at a time share the work."""
        key = (url, context.client_ip or "")
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._found(key, context))
            self._running[key] = task
            task.add_done_callback(lambda done: self._done(key, done))
        try:
            async with asyncio.timeout_at(context.deadline):
                return await asyncio.shield(task)  # it ends by itself in bounded time; others may wait for it too
        except TimeoutError as error:
            raise FetchError(both("调用的时限已到", "the time of the call is over")) from error

    def _done(self, key: _Wish, task: asyncio.Task[Copy]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # told to whoever waits; nobody may be left who does

    async def _found(self, wish: _Wish, context: CallContext) -> Copy:
        url, client = wish
        copy = await asyncio.to_thread(self._copies.find, client, url)
        now = self._monotonic()
        failed = self._failed.get(wish)
        if failed is not None and now - failed[0] < FAILED_SECONDS:
            raise FetchError(failed[1])
        asked = self._asked.get(wish)
        if asked is not None and now - asked < AGAIN_SECONDS:
            if copy is not None:
                return copy
            raise FetchError(
                both("同一文件在 5 秒内被重复请求", f"the same file was asked for within {AGAIN_SECONDS:g} s already")
            )
        _remember(self._asked, wish, now)
        try:
            return await self._renewed(wish, context, copy)
        except FetchError as error:
            _remember(self._failed, wish, (self._monotonic(), error.message))
            raise

    async def _renewed(self, wish: _Wish, context: CallContext, copy: Copy | None) -> Copy:
        """The file from whoever has it, or the copy while that is still the file or nobody is there. FetchError."""
        url, client = wish
        found = await self._from_somebody(url, context, copy.known if copy is not None else None)
        if found is None:
            if copy is None and (old := await asyncio.to_thread(self._copies.find_old, url)) is not None:
                copy = Copy(old, media_type_of(url), FileCopy(""))
            if copy is None:
                raise FetchError(both("没有节点拥有该文件", "nobody who has the file is connected"))
            return copy
        if found.content is None:
            if copy is None:
                raise FetchError(both("节点没有给出文件内容", "the file came without content"))
            renewed = replace(copy, known=FileCopy(found.holder, found.version))
            if renewed == copy:
                return copy
        else:
            renewed = _checked(found, found.content, url)
        try:
            await asyncio.to_thread(self._copies.keep, client, url, renewed)
        except OSError as error:
            log.warning("a file of a client cannot be kept in %s: %s", self._folder, error.strerror or error)
        return renewed

    async def _from_somebody(self, url: str, context: CallContext, known: FileCopy | None) -> FetchedFile | None:
        """The file from the first fetcher that has it. Raises FetchError."""
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                for fetcher in self._fetchers:
                    found = await fetcher.fetch(url, context, known)
                    if found is not None:
                        return found
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
        return None


def missing_file(result: ToolResult) -> str | None:
    """The ``file://`` address that a plugin says it lacks, or None for every other result."""
    fields = result.structured
    if result.error_kind is not ErrorKind.PLUGIN or not isinstance(fields, dict) or fields.get("code") != MISSING:
        return None
    url = fields.get("fileUrl")
    return url if isinstance(url, str) and is_file_url(url) else None


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


def data_uri(copy: Copy) -> str:
    """A file as one text."""
    return f"data:{copy.media_type};base64,{base64.b64encode(copy.content).decode('ascii')}"


def media_type_of(url: str) -> str:
    """The media type that the ending of an address stands for."""
    return mimetypes.guess_type(path_of(url), strict=False)[0] or "application/octet-stream"


def _checked(found: FetchedFile, content: bytes, url: str) -> Copy:
    if len(content) > FILE_BYTES:
        raise FetchError(
            both(f"文件超过 {FILE_BYTES} 字节", f"the file has {len(content)} bytes, {FILE_BYTES} are allowed")
        )
    media_type = found.media_type if _MEDIA_TYPE.fullmatch(found.media_type) else media_type_of(url)
    return Copy(content, media_type, FileCopy(found.holder, found.version))


def _remember(memory: dict[_Wish, T], wish: _Wish, value: T) -> None:
    memory.pop(wish, None)
    memory[wish] = value
    while len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
