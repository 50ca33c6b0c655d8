"""Notes for administrators: ``/admin_api/dailynotes``, ``/AdminPanel/dailynote_api`` (memory.md 1.7; vcp-core 8.2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.errors import BadRequestError, VcpError, both
from app.extend import Access, DeclaredRoute, Json, NotesChanged, Remembered
from app.memory.diaries.notebooks import NoSuchNoteError, find_note
from app.memory.diaries.notes import MAX_BATCH, MAX_RESULTS, Batch, ConflictError, NoteLine, Notes, Place, fingerprint
from app.protocol.half_characters import whole
from app.services import Services
from app.web.admin.bodies import Answer, etag, expected_version, json_object, telling, text_of
from app.web.errors import JsonResponse

PREFIXES = ("/admin_api/dailynotes", "/AdminPanel/dailynote_api")
"""The same routes twice: the panel of newer installations asks at the second one."""

BODY_LIMIT = 24 * 1024 * 1024
"""Bytes of a request body: a note of 8 MiB, escaped."""

MAX_SEARCHES = 2
"""Searches that read files at a time; the others wait."""

MAX_WAITING = 20
MAX_TERM_CHARS = 1000
MAX_K = 200

_CHUNK_CHARS = 200
_CHUNKS_SHOWN = 3


class BusyError(VcpError):
    """Too many searches wait already."""

    status = 503
    code = "busy"


class DailyNotesRoutes:
    """The ``RouteSource`` of the notes. What changes a note publishes ``NotesChanged``."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._places = asyncio.Semaphore(MAX_SEARCHES)
        self._searches = 0
        handlers: tuple[tuple[str, str, Answer], ...] = (
            ("GET", "/folders", self._folders),
            ("GET", "/folder/{folder}", self._folder),
            ("POST", "/folder/delete", self._delete_folder),
            ("GET", "/search", self._search),
            ("GET", "/note/{folder}/{file:path}", self._note),
            ("POST", "/note/{folder}/{file:path}", self._save),
            ("POST", "/move", self._move),
            ("POST", "/delete-batch", self._delete),
            ("GET", "/trash", self._trash),
            ("POST", "/restore", self._restore),
            ("POST", "/associative-discovery", self._associate),
            ("GET", "/admin/queue-status", self._queue),
        )
        self._routes = tuple(
            DeclaredRoute(Route(prefix + path, telling(handler), methods=[method]), Access.ADMIN)
            for prefix in PREFIXES
            for method, path, handler in handlers
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    def _notes(self) -> Notes:
        in_force = self._services.in_force
        return Notes(in_force.home, in_force.notebooks)

    async def _folders(self, _request: Request) -> Response:
        return JsonResponse({"folders": await asyncio.to_thread(self._notes().notebooks)})

    async def _folder(self, request: Request) -> Response:
        lines = await asyncio.to_thread(self._notes().of_notebook, request.path_params["folder"])
        return JsonResponse({"notes": [_line(line) for line in lines]})

    async def _delete_folder(self, request: Request) -> Response:
        name = text_of(await json_object(request, BODY_LIMIT), "folderName")
        await asyncio.to_thread(self._notes().delete_notebook, name)
        return JsonResponse({"message": f"Empty folder '{name}' has been deleted successfully."})

    async def _search(self, request: Request) -> Response:
        term = request.query_params.get("term", "").strip()[:MAX_TERM_CHARS]
        if not term:
            raise BadRequestError(both("缺少搜索词 term", "Search term is required."))
        limit = request.query_params.get("limit", "")
        wanted = int(limit) if limit.isascii() and limit.isdigit() and len(limit) < 9 else MAX_RESULTS
        folder = request.query_params.get("folder", "").strip()
        if self._searches >= MAX_WAITING:
            raise BusyError(both("搜索太多，请稍后再试", "Too many concurrent searches, please retry later"))
        self._searches += 1
        stopped = threading.Event()
        try:
            async with self._places:
                found = await asyncio.to_thread(self._notes().search, term, folder, wanted, stopped)
        finally:
            stopped.set()  # whoever asked may have gone; the thread then ends by itself
            self._searches -= 1
        notes = [{"name": line.name, "folderName": line.notebook, **_times(line)} for line in found.notes]
        return JsonResponse({"notes": notes, "total": found.total, "limited": not found.complete})

    async def _queue(self, _request: Request) -> Response:
        running = min(self._searches, MAX_SEARCHES)
        return JsonResponse(
            {"active": running, "waiting": self._searches - running, "max": MAX_SEARCHES, "inflight": self._searches}
        )

    async def _note(self, request: Request) -> Response:
        data = await asyncio.to_thread(self._notes().read, _place(request))
        return JsonResponse({"content": data.decode("utf-8", "replace")}, headers=etag(fingerprint(data)))

    async def _save(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        content = body.get("content")
        if not isinstance(content, str):
            raise BadRequestError(both("缺少文本 content", "Invalid request body: content is a text"))
        place = _place(request)
        try:
            saved = await asyncio.to_thread(self._notes().save, place, whole(content), expected_version(request, body))
        except ConflictError as error:
            there = await asyncio.to_thread(self._text_of, place)
            told = {"error": error.message, "current": error.current, "yours": error.given, "content": there}
            return JsonResponse(told, error.status)
        self._changed((str(place),))
        return JsonResponse({"message": "Saved successfully"}, headers=etag(saved))

    def _text_of(self, place: Place) -> str:
        try:
            return self._notes().read(place).decode("utf-8", "replace")
        except NoSuchNoteError:
            return ""

    async def _move(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        target, places = text_of(body, "targetFolder"), _places(body, "sourceNotes")
        batch = await asyncio.to_thread(self._notes().move, places, target)
        self._changed(batch.paths)
        message = f"Moved {len(batch.done)} note(s).{_told(batch)}"
        return JsonResponse({"message": message, "moved": list(batch.done), "errors": _errors(batch.errors)})

    async def _delete(self, request: Request) -> Response:
        places = _places(await json_object(request, BODY_LIMIT), "notesToDelete")
        days = self._services.settings.memory_trash_days
        batch = await asyncio.to_thread(self._notes().delete, places, datetime.now(UTC), days)
        self._changed(batch.paths)
        facts: dict[str, Json] = {
            "message": f"Deleted {len(batch.done)} note(s).{_told(batch)}",
            "deleted": list(batch.done),
            "errors": _errors(batch.errors),
        }
        return JsonResponse(facts | ({"trash": batch.trash_id} if batch.trash_id else {}))

    async def _trash(self, _request: Request) -> Response:
        deletions = await asyncio.to_thread(self._notes().trash.deletions)
        return JsonResponse({"trash": [{"id": one.id, "notes": list(one.notes)} for one in deletions]})

    async def _restore(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        wanted = None if body.get("notes") is None else [str(place) for place in _places(body, "notes")]
        restored, failed = await asyncio.to_thread(self._notes().trash.restore, text_of(body, "trash"), wanted)
        self._changed(tuple(restored))
        message = f"Restored {len(restored)} note(s)."
        return JsonResponse({"message": message, "restored": restored, "errors": _errors(failed)})

    async def _associate(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        source = text_of(body, "sourceFilePath").replace("\\", "/").strip("/")
        asked = body.get("range")
        names = tuple(name for name in asked if isinstance(name, str)) if isinstance(asked, list) else ()
        k = max(1, min(MAX_K, int(_number(body.get("k"), 10))))
        notes = self._notes()
        path = await asyncio.to_thread(find_note, notes.root, source)
        source = path.relative_to(notes.root).as_posix()
        found = await self._services.memory.for_plugins.neighbours(
            [source], notebooks=names or None, k=k, tag_boost=_number(body.get("tagBoost"), 0.15)
        )
        metadata = {
            "totalChunksFound": len(found),
            "uniqueFilesFound": len({one.path for one in found}),
            "k": k,
            "range": list(names) or "All",
        }
        return JsonResponse({"source": source, "warning": None, "results": associated(found), "metadata": metadata})

    def _changed(self, paths: tuple[str, ...]) -> None:
        if paths:
            self._services.events.publish(NotesChanged(paths))


def associated(found: Sequence[Remembered]) -> list[dict[str, Json]]:
    """One entry for each note, best first, with the beginnings of what was near."""
    notes: dict[str, dict[str, Json]] = {}
    for one in found:
        note = notes.setdefault(
            one.path,
            {
                "path": one.path,
                "name": one.path.rpartition("/")[2],
                "score": one.score,
                "chunks": [],
                "matchedTags": [],
                "tagMatchScore": 0,
            },
        )
        if len(note["chunks"]) < _CHUNKS_SHOWN:
            note["chunks"].append(one.text[:_CHUNK_CHARS] + ("..." if len(one.text) > _CHUNK_CHARS else ""))
        note["matchedTags"] += [tag for tag in one.matched_tags if tag not in note["matchedTags"]]
    return list(notes.values())


def _number(value: Json, default: float) -> float:
    """A number, written as text too (``0.6+`` in newer panels); the default for everything else."""
    try:
        number = float(value.strip().removesuffix("+")) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if 0 <= number < 1e6 else default


def _places(body: Mapping[str, Json], name: str) -> list[Place]:
    value = body.get(name)
    if not isinstance(value, list) or len(value) > MAX_BATCH:
        raise BadRequestError(
            both(
                f"{name} 必须是列表，最多 {MAX_BATCH} 项",
                f"Invalid request body: {name} is a list of at most {MAX_BATCH}",
            )
        )
    return list(_read_places(value, name))


def _read_places(value: Sequence[Json], name: str) -> Iterator[Place]:
    for item in value:
        folder, file = (item.get("folder"), item.get("file")) if isinstance(item, dict) else (None, None)
        if not isinstance(folder, str) or not isinstance(file, str):
            raise BadRequestError(
                both(f"{name} 的每一项需要 folder 和 file", f"Invalid request body: each of {name} has folder and file")
            )
        yield Place(whole(folder), whole(file))


def _place(request: Request) -> Place:
    return Place(request.path_params["folder"], request.path_params["file"])


def _line(line: NoteLine) -> dict[str, Json]:
    return {"name": line.name, **_times(line)}


def _times(line: NoteLine) -> dict[str, Json]:
    moment = datetime.fromtimestamp(line.modified // 1_000_000_000, UTC)
    millis = line.modified // 1_000_000 % 1000
    return {"lastModified": f"{moment:%Y-%m-%dT%H:%M:%S}.{millis:03d}Z", "preview": line.preview}


def _told(batch: Batch) -> str:
    return f" Encountered {len(batch.errors)} error(s)." if batch.errors else ""


def _errors(errors: Sequence[tuple[str, str]]) -> list[Json]:
    return [{"note": note, "error": why} for note, why in errors]
