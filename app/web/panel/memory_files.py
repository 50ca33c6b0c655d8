"""Tags and thresholds of notebooks, semantic groups and thinking chains: forms for entries, and the file as text."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.config.edited_file import EditConflictError
from app.errors import BadRequestError, NotFoundError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage
from app.memory.diaries.notebooks import notebooks
from app.memory.enhance import editing
from app.memory.enhance.editing import Document, EditedDocument
from app.web.admin.bodies import content_of, expected_version, json_object, telling
from app.web.errors import JsonResponse
from app.web.panel.frame import URL, Panel, panel_route

SHOWN = 500
"""Entries of a file that are shown as forms; the text tab shows all."""

_SEPARATORS = re.compile(r"[\n,，、]+")


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of the files: how an entry is read from a form, and where entries stand in the document."""

    file: EditedDocument
    chinese: str
    english: str
    entries: Callable[[Document], dict[str, Any]]
    entry: Callable[[Mapping[str, str], Any], Any]


def _whole(document: Document) -> dict[str, Any]:
    return document


def _below(name: str) -> Callable[[Document], dict[str, Any]]:
    def entries(document: Document) -> dict[str, Any]:
        found = document.setdefault(name, {})
        if not isinstance(found, dict):
            raise BadRequestError(
                both(f"文件中的 {name} 不是对象，请在文本中修正", f"{name} of the file is no object: mend it as text")
            )
        return cast(dict[str, Any], found)

    return entries


def _tags(form: Mapping[str, str], before: Any) -> Any:
    fields = dict(before) if isinstance(before, dict) else {}
    threshold = form.get("threshold", "").strip()
    fields["tags"] = words_of(form.get("words", ""))
    fields.pop("threshold", None)
    if threshold:
        fields["threshold"] = _number(threshold, "threshold")
    return fields


def _group(form: Mapping[str, str], before: Any) -> Any:
    fields = dict(before) if isinstance(before, dict) else {}
    fields["words"] = words_of(form.get("words", ""))
    fields["weight"] = _number(form.get("weight", "").strip() or "1", "weight")
    return fields


def _chain(form: Mapping[str, str], before: Any) -> Any:
    lines = [line.strip() for line in form.get("words", "").splitlines() if line.strip()]
    if isinstance(before, dict):
        return {**before, "clusters": lines}
    return {"clusters": lines}


KINDS = {
    "tags": _Kind(editing.EDITED_RAG_TAGS, "标签与门槛", "Tags and thresholds", _whole, _tags),
    "groups": _Kind(editing.EDITED_SEMANTIC_GROUPS, "语义组", "Semantic groups", _below("groups"), _group),
    "chains": _Kind(editing.EDITED_CHAINS, "思维链", "Thinking chains", _below("chains"), _chain),
}


class MemoryFilesPart:
    """One page with a tab for each file."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel

    def pages(self) -> Sequence[PanelPage]:
        """One."""
        words = "rag_tags semantic groups thinking chains 标签 语义组 思维链 门槛 threshold"
        return (PanelPage("memory-files", PageGroup.MEMORY, "标签、语义组、思维链", "Tags, groups, chains", 30, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The tabs, saving and removing one entry, and the whole file as text."""
        return (
            panel_route("/memory-files", self._first),
            panel_route("/memory-files/{kind}", self._show),
            panel_route("/memory-files/{kind}/entry", self._save, "POST"),
            panel_route("/memory-files/{kind}/text", telling(self._save_text), "POST"),
        )

    async def _first(self, _request: Request) -> Response:
        return RedirectResponse(f"{URL}/memory-files/tags", 303)

    async def _show(self, request: Request) -> Response:
        kind = _kind(request)
        home = self._panel.services.in_force.home
        version, text = await asyncio.to_thread(kind.file.version, home)
        problem, entries = "", {}
        try:
            document: Document | None = await asyncio.to_thread(kind.file.read, home)
            entries = kind.entries(document or {})
        except (ValueError, BadRequestError) as fault:
            problem = str(fault)
        names = await asyncio.to_thread(notebooks, self._panel.services.in_force.notebooks)
        return self._panel.page(
            request,
            "memory_files.html",
            "memory-files",
            kinds=KINDS,
            current_kind=request.path_params["kind"],
            kind=kind,
            entries=list(entries.items())[:SHOWN],
            more=max(0, len(entries) - SHOWN),
            problem=problem,
            notebooks=names,
            fingerprint=version,
            content=text or "{}\n",
            as_text=request.query_params.get("as") == "text" or bool(problem),
        )

    async def _save(self, request: Request) -> Response:
        kind = _kind(request)
        form = await self._panel.form(request)
        name = form.get("name", "").strip()
        if not name or len(name) > 200:
            raise BadRequestError(both("请填写名称（最多 200 字）", "write a name of at most 200 characters"))
        remove = form.get("action") == "remove"
        try:
            await asyncio.to_thread(self._changed, kind, name, form, remove)
        except EditConflictError:
            return self._panel.told(
                request,
                "文件在此期间被改动，没有保存。请刷新页面查看现在的内容。",
                "The file was changed meanwhile, nothing was saved. Reload the page to see what it says now.",
                status=409,
                kind="bad",
            )
        answer = self._panel.told(request, "已保存，立即生效", "Saved, and in force")
        answer.headers["HX-Refresh"] = "true"
        return answer

    def _changed(self, kind: _Kind, name: str, form: Mapping[str, str], remove: bool) -> None:
        home = self._panel.services.in_force.home
        document = kind.file.read(home) or {}
        entries = kind.entries(document)
        before = entries.get(name)
        if remove:
            entries.pop(name, None)
        else:
            entries[name] = kind.entry(form, before)
        kind.file.save_if(home, document, form.get("expected", ""))

    async def _save_text(self, request: Request) -> Response:
        kind = _kind(request)
        body = await json_object(request)
        text = content_of(body)
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise BadRequestError(f"{both('不是 JSON', 'this is no JSON')}: {fault}") from None
        if not isinstance(document, dict):
            raise BadRequestError(both("应为 JSON 对象", "it has to be a JSON object"))
        home = self._panel.services.in_force.home
        saved = await asyncio.to_thread(kind.file.save_if, home, document, expected_version(request, body))
        return JsonResponse({"message": both("已保存，立即生效", "Saved, and in force"), "fingerprint": saved})


def words_of(text: str) -> list[str]:
    """Words of a field, separated by lines or commas of both languages, each once."""
    return list(dict.fromkeys(word.strip() for word in _SEPARATORS.split(text) if word.strip()))


def _number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise BadRequestError(both(f"{name} 应为不小于 0 的数", f"{name} has to be a number from 0 on"))
    return int(value) if value.is_integer() else value


def _kind(request: Request) -> _Kind:
    kind = KINDS.get(request.path_params["kind"])
    if kind is None:
        raise NotFoundError(both("没有此页面", "there is no such page"))
    return kind
