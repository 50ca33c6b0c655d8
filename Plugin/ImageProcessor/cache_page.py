"""The cache of descriptions as a page of the admin panel: looking, correcting, describing anew, deleting."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, tzinfo
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.errors import both
from app.extend import PageGroup, PageVisit, PanelPage, PluginPage

from .transcriptions import SHA_PREFIX, ChangedError, Line, Transcriptions

ROWS = 20
WORDS_CHARS = 200
SHOWN_CHARS = 8000
"""Characters of a description that a page shows; a longer one is changed over HTTP."""


Said = tuple[str, str, str]
"""The kind of a notice, and its words in Chinese and in English."""

_MISSING: Said = ("bad", "缓存里没有这份数据。", "This medium is not in the cache.")
_CHANGED: Said = (
    "warn",
    "描述在此期间被改动，没有保存。下面保留了你写的内容，上面是现在的描述；再次保存会覆盖它。",
    "The description was changed meanwhile; nothing was saved. What you wrote is kept below what it says now; saving "
    "again writes over that.",
)


class CacheError(Exception):
    """Something cannot be done; ``told`` is for people, ``details`` more of it, ``status`` that of HTTP."""

    def __init__(self, status: int, told: str, details: str = "") -> None:
        super().__init__(told)
        self.status = status
        self.told = told
        self.details = details


class CachePage:
    """The page. ``again`` has a medium described anew; ``on`` says whether anything is kept."""

    def __init__(
        self,
        cache: Transcriptions,
        again: Callable[[str], Awaitable[Line]],
        zone: tzinfo,
        on: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._again = again
        self._zone = zone
        self._on = on
        self._templates = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def declared(self) -> PluginPage:
        """The page as the panel lists it."""
        words = "多模态 图片 转译 描述 multimodal image cache base64 descriptions"
        page = PanelPage("media-cache", PageGroup.MEMORY, "媒体缓存", "Media cache", 70, words)
        return PluginPage(page, self.content)

    async def content(self, visit: PageVisit) -> str:
        """The HTML of the page, after what its form asks for was done."""
        said: Said | None = None
        draft: dict[str, str] = {}
        if visit.method == "POST":
            said, draft = await self._act(visit.form)
        words = visit.query.get("q", "").strip()[:WORDS_CHARS]
        number = _number(visit.query.get("page", ""))
        total, lines, fault = 0, [], ""
        try:
            total, lines = await asyncio.to_thread(self._cache.page, (number - 1) * ROWS, ROWS, words)
        except (sqlite3.Error, OSError) as error:
            fault = f"{both('缓存不可用', 'the cache cannot be used')}: {error}"
        chinese = visit.language == "zh"
        return self._templates.get_template("cache_page.html").render(
            t=lambda zh, en: zh if chinese else en,
            when=self._when,
            lines=lines,
            total=total,
            words=words,
            page=number,
            pages=max(1, math.ceil(total / ROWS)),
            said=said,
            draft=draft,
            fault=fault,
            on=self._on(),
            shown_chars=SHOWN_CHARS,
        )

    async def _act(self, form: Mapping[str, str]) -> tuple[Said, dict[str, str]]:
        """Do what a form asks for: a notice, and what was typed where it was not taken."""
        sha, action = form.get("hash", ""), form.get("action", "")
        try:
            if action == "save":
                return await self._save(sha, form)
            if action == "again":
                await self._again(SHA_PREFIX + sha)
                return ("ok", "已重新转译。", "It was described anew."), {}
            if action == "delete":
                gone = await asyncio.to_thread(self._cache.remove, sha)
                return ("ok", "已删除。", "It was deleted.") if gone else _MISSING, {}
        except CacheError as error:
            told = f"{error.told} {error.details}".strip()
            return ("bad", told, told), {}
        except (sqlite3.Error, OSError) as error:
            return ("bad", f"缓存不可用：{error}", f"The cache cannot be used: {error}"), {}
        return ("bad", "未知的操作。", "That is no action."), {}

    async def _save(self, sha: str, form: Mapping[str, str]) -> tuple[Said, dict[str, str]]:
        text = form.get("description", "").replace("\r\n", "\n")
        try:
            saved = await asyncio.to_thread(self._cache.describe, sha, text, form.get("version"))
        except ChangedError:
            return _CHANGED, {"sha": sha, "text": text}
        except ValueError:
            return ("bad", "描述不能为空。", "A description must say something."), {}
        return ("ok", "描述已保存。", "The description is saved.") if saved else _MISSING, {}

    def _when(self, seconds: float) -> str:
        return f"{datetime.fromtimestamp(seconds, self._zone):%Y-%m-%d %H:%M}"


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 7 and int(text) > 0 else 1
