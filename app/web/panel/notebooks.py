"""Notebooks and their notes: lists, search, editing, moving, deleting with undo (memory.md 1.7)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import BadRequestError, both
from app.extend import DeclaredRoute, NotesChanged, PageGroup, PanelPage, SearchHit
from app.memory.diaries.notes import Batch, Found, NoteLine, Notes, Place, fingerprint
from app.web.admin.bodies import whole_number
from app.web.panel.frame import URL, Panel, panel_route

PAGE_NOTES = 100
SEARCH_LIMIT = 200
MAX_TERM_CHARS = 200
NEW_NOTE = "%Y-%m-%d-%H_%M_%S.txt"
"""The name that a new note is offered; as a diary tool would name it."""


class NotebooksPart:
    """Pages of notebooks, of one notebook, of one note, and of what was deleted."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._searching = asyncio.Semaphore(2)

    def pages(self) -> Sequence[PanelPage]:
        """One; notes are reached from it."""
        return (PanelPage("notebooks", PageGroup.MEMORY, "日记本", "Notebooks", 10, "diary note 日记 笔记 dailynote"),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """The pages and what their buttons do."""
        return (
            panel_route("/notebooks", self._list),
            panel_route("/notebooks/trash", self._trash),
            panel_route("/notebooks/trash", self._restore, "POST"),
            panel_route("/notebooks/{notebook}", self._notebook),
            panel_route("/notebooks/{notebook}/remove", self._remove, "POST"),
            panel_route("/notebooks/{notebook}/new", self._new),
            panel_route("/notebooks/{notebook}/notes", self._change, "POST"),
            panel_route("/notebooks/{notebook}/note/{file:path}", self._note),
        )

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Notebooks by name, then notes with the words."""
        notes = self._notes()
        names = await asyncio.to_thread(notes.notebooks)
        hits = [_notebook_hit(name) for name in names if words.casefold() in name.casefold()][:limit]
        found = await self._search(words, "", limit)
        return [*hits, *(_note_hit(line) for line in found.notes)]

    def _notes(self) -> Notes:
        in_force = self._panel.services.in_force
        return Notes(in_force.home, in_force.notebooks)

    async def _search(self, words: str, notebook: str, limit: int) -> Found:
        stopped = threading.Event()
        try:
            async with self._searching:
                return await asyncio.to_thread(self._notes().search, words, notebook, limit, stopped)
        finally:
            stopped.set()

    async def _list(self, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()[:MAX_TERM_CHARS]
        names = await asyncio.to_thread(self._notes().notebooks)
        found = await self._search(words, "", SEARCH_LIMIT) if words else None
        counts: dict[str, int] = {}
        index = self._panel.services.memory.index.index
        if index is not None:
            counts = {name: state.notes for name, state in index.notebooks().items()}
        return self._panel.page(
            request,
            "notebooks.html",
            "notebooks",
            names=names,
            counts=counts,
            words=words,
            found=found,
            link=note_address,
        )

    async def _notebook(self, request: Request) -> Response:
        notebook = request.path_params["notebook"]
        words = request.query_params.get("q", "").strip()[:MAX_TERM_CHARS]
        notes = self._notes()
        if words:
            found = await self._search(words, notebook, SEARCH_LIMIT)
            lines, total, complete = list(found.notes), found.total, found.complete
        else:
            lines = await asyncio.to_thread(notes.of_notebook, notebook)
            total, complete = len(lines), True
        pages = max(1, -(-len(lines) // PAGE_NOTES))
        page = min(pages, whole_number(request, "page"))
        names = await asyncio.to_thread(notes.notebooks)
        return self._panel.page(
            request,
            "notebook.html",
            "notebooks",
            notebook=notebook,
            lines=lines[(page - 1) * PAGE_NOTES : page * PAGE_NOTES],
            total=total,
            complete=complete,
            page_number=page,
            pages=pages,
            words=words,
            others=[name for name in names if name != notebook],
            link=note_address,
        )

    async def _new(self, request: Request) -> Response:
        notebook = request.path_params["notebook"]
        now = datetime.now(self._panel.services.config.zone)
        file = request.query_params.get("file", "").strip() or f"{now:{NEW_NOTE}}"
        if not file.endswith((".txt", ".md")):
            file += ".txt"
        content = f"[{now:%Y-%m-%d}] - {notebook}\n\n"
        return self._note_page(request, Place(notebook, file), content, "", new=True)

    async def _note(self, request: Request) -> Response:
        place = Place(request.path_params["notebook"], request.path_params["file"])
        data = await asyncio.to_thread(self._notes().read, place)
        return self._note_page(request, place, data.decode("utf-8", "replace"), fingerprint(data))

    def _note_page(self, request: Request, place: Place, content: str, version: str, *, new: bool = False) -> Response:
        return self._panel.page(
            request,
            "note.html",
            "notebooks",
            place=place,
            content=content,
            fingerprint=version,
            save=f"/admin_api/dailynotes/note/{quote(place.notebook, safe='')}/{quote(place.file)}",
            new=new,
            broken="\ufffd" in content,
        )

    async def _change(self, request: Request) -> Response:
        """Delete or move the chosen notes."""
        notebook = request.path_params["notebook"]
        fields = await self._panel.fields(request)
        places = [Place(notebook, value) for name, value in fields if name == "file"]
        chosen = dict(fields)
        if not places:
            return self._panel.told(request, "没有选择日记", "No note is chosen", status=400, kind="bad")
        if chosen.get("action") == "move":
            target = (chosen.get("new_target") or chosen.get("target") or "").strip()
            if not target:
                return self._panel.told(request, "请选择目标日记本", "Choose a notebook", status=400, kind="bad")
            batch = await asyncio.to_thread(self._notes().move, places, target)
        elif chosen.get("action") == "delete":
            days = self._panel.services.settings.memory_trash_days
            batch = await asyncio.to_thread(self._notes().delete, places, datetime.now(UTC), days)
        else:
            raise BadRequestError(both("未知操作", "this action is not known"))
        self._changed(batch)
        return self._panel.fragment(request, "notebook_changed.html", batch=batch, notebook=notebook)

    async def _remove(self, request: Request) -> Response:
        name = request.path_params["notebook"]
        await asyncio.to_thread(self._notes().delete_notebook, name)
        return RedirectResponse(f"{URL}/notebooks", 303)

    async def _trash(self, request: Request) -> Response:
        deletions = await asyncio.to_thread(self._notes().trash.deletions)
        days = self._panel.services.settings.memory_trash_days
        return self._panel.page(request, "notebooks_trash.html", "notebooks", deletions=deletions, days=days)

    async def _restore(self, request: Request) -> Response:
        form = await self._panel.form(request)
        restored, failed = await asyncio.to_thread(self._notes().trash.restore, form.get("trash", ""), None)
        if restored:
            self._panel.services.events.publish(NotesChanged(tuple(restored)))
        if failed:
            note, why = failed[0]
            return self._panel.told(
                request,
                f"恢复了 {len(restored)} 篇；{note} 没有恢复：{why}",
                f"{len(restored)} are back; {note} is not: {why}",
                kind="bad",
            )
        return self._panel.told(
            request, f"恢复了 {len(restored)} 篇", f"{len(restored)} are back", events={"notes:changed": {}}
        )

    def _changed(self, batch: Batch) -> None:
        if batch.paths:
            self._panel.services.events.publish(NotesChanged(batch.paths))


def note_address(notebook: str, file: str) -> str:
    """The page of a note."""
    return f"{URL}/notebooks/{quote(notebook, safe='')}/note/{quote(file)}"


def _notebook_hit(name: str) -> SearchHit:
    return SearchHit(f"日记本 {name}", f"Notebook {name}", f"{URL}/notebooks/{quote(name, safe='')}")


def _note_hit(line: NoteLine) -> SearchHit:
    return SearchHit(f"日记 {line.name}", f"Note {line.name}", note_address(line.notebook, line.name), line.notebook)
