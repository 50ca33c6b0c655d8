"""What the pages of agents and of variable files share: trees of files, forms, the trash, the preview."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from app.config.edited_file import EditedFile
from app.config.trash_time import deleted_at
from app.errors import VcpError
from app.extend import DeclaredRoute, Json, SearchHit
from app.prompt.edited_texts import EditedTexts
from app.services import Services
from app.web.admin.prompt_files import rename_text
from app.web.panel.frame import URL, Panel, panel_route

SHOWN_FILES = 1_000
"""Files of a tree; the filter finds the others."""

MAX_MODELS = 200


@dataclass(frozen=True, slots=True)
class TextPage:
    """One page of text files: its path, its names, the route of its files below ``/admin_api``, and further tabs."""

    path: str
    title: tuple[str, str]
    route: str
    texts: Callable[[Services], EditedTexts]
    tabs: Sequence[tuple[str, tuple[str, str]]]

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"{URL}/{self.path}"


class TextFilePages:
    """The pages of one folder. ``used_by`` gives the names that a file goes by, ``unused`` what is said without any."""

    def __init__(
        self,
        panel: Panel,
        page: TextPage,
        used_by: Callable[[str], Sequence[str]],
        unused: tuple[str, str],
    ) -> None:
        self._panel = panel
        self._page = page
        self._used_by = used_by
        self._unused = unused

    def routes(self) -> Sequence[DeclaredRoute]:
        """The page, its trash, and its forms."""
        path = f"/{self._page.path}"
        return (
            panel_route(path, self._show),
            panel_route(f"{path}/trash", self._trash),
            panel_route(f"{path}/new", self._new, "POST"),
            panel_route(f"{path}/rename", self._rename, "POST"),
            panel_route(f"{path}/delete", self._delete, "POST"),
            panel_route(f"{path}/restore", self._restore, "POST"),
        )

    def frame(self, request: Request) -> Mapping[str, Any]:
        """What all templates of the page need."""
        language = self._panel.language(request)
        entries = [
            (
                key,
                chinese if language == "zh" else english,
                f"{self._page.address}{'/' + key if key != 'files' else ''}",
            )
            for key, (chinese, english) in (
                ("files", ("文件", "Files")),
                *self._page.tabs,
                ("trash", ("回收站", "Trash")),
            )
        ]
        return {"title": self._page.title, "address": self._page.address, "tab_entries": entries}

    def texts(self) -> EditedTexts:
        """The folder's files."""
        return self._page.texts(self._panel.services)

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Files by name, for the search of the top bar."""
        found = await asyncio.to_thread(self.texts().files)
        paths = [line.path for line in found.files if words.lower() in line.path.lower()][:limit]
        chinese, english = self._page.title
        return [
            SearchHit(path, path, f"{self._page.address}?file={quote(path)}", f"{chinese} / {english}")
            for path in paths
        ]

    async def _show(self, request: Request) -> Response:
        current = request.query_params.get("file", "")[:1000]
        words = request.query_params.get("q", "").strip()[:200]
        listed = await asyncio.to_thread(self.texts().files)
        paths = [line.path for line in listed.files]
        shown = [path for path in paths if words.lower() in path.lower()][:SHOWN_FILES]
        file, error, status = await self._file(current)
        services = self._panel.services
        chinese = self._panel.language(request) == "zh"
        return self._panel.page(
            request,
            "agents.html",
            self._page.path,
            status=status,
            **self.frame(request),
            kind=self._page.path,
            tree=file_tree(shown),
            total=len(paths),
            shown=len(shown) if not words else len(paths),
            words=words,
            chosen=current,
            file=file,
            error=error,
            used_by=await asyncio.to_thread(self._used_by, current) if file is not None else (),
            unused=self._unused[0 if chinese else 1],
            save=f"/admin_api/{self._page.route}/{quote(current, safe='')}",
            models=models_known(services),
            undoable=services.settings.memory_trash_days > 0,
            deleted=deletion_name(request.query_params.get("deleted", "")),
        )

    async def _file(self, path: str) -> tuple[EditedFile | None, str, int]:
        """The chosen file, or why it cannot be shown."""
        if not path:
            return None, "", 200
        try:
            return await asyncio.to_thread(self.texts().read, path), "", 200
        except VcpError as fault:
            return None, fault.message, fault.status

    async def _trash(self, request: Request) -> Response:
        kept = await asyncio.to_thread(self.texts().trash)
        return self._panel.page(
            request,
            "prompt_trash.html",
            self._page.path,
            **self.frame(request),
            kept=[(one, deleted_at(one.id)) for one in kept],
            days=self._panel.services.settings.memory_trash_days,
        )

    async def _new(self, request: Request) -> Response:
        path = (await self._panel.form(request)).get("path", "").strip().strip("/")
        name = path.rpartition("/")[2]
        path = path if "." in name else f"{path}.txt"
        await asyncio.to_thread(self.texts().create, path)
        return self._go(f"?file={quote(path)}")

    async def _rename(self, request: Request) -> Response:
        form = await self._panel.form(request)
        path, to = form.get("path", ""), form.get("to", "").strip()
        await asyncio.to_thread(rename_text, self._panel.services, self.texts(), path, to)
        return self._go(f"?file={quote(to)}")

    async def _delete(self, request: Request) -> Response:
        path = (await self._panel.form(request)).get("path", "")
        days = self._panel.services.settings.memory_trash_days
        deletion = await asyncio.to_thread(self.texts().delete, path, datetime.now(UTC), days)
        return self._go(f"?deleted={quote(deletion)}" if deletion else "")

    async def _restore(self, request: Request) -> Response:
        deletion = (await self._panel.form(request)).get("trash", "")
        path = await asyncio.to_thread(self.texts().restore, deletion)
        return self._go(f"?file={quote(path)}")

    def _go(self, query: str) -> Response:
        """Send the browser to the page; forms of htmx follow this header."""
        return Response(status_code=204, headers={"HX-Redirect": f"{self._page.address}{query}"})


def file_tree(paths: Iterable[str]) -> Mapping[str, Json]:
    """Folders and files, each with its ``type`` and ``path``; folders have ``children``."""
    tree: dict[str, Json] = {}
    for path in paths:
        here, done = tree, ""
        *folders, name = path.split("/")
        for folder in folders:
            done = f"{done}/{folder}" if done else folder
            here = here.setdefault(folder, {"type": "folder", "path": done, "children": {}})["children"]
        here[name] = {"type": "file", "path": path}
    return tree


def models_known(services: Services) -> Sequence[str]:
    """Names of models that the configuration knows, for suggestions; nobody is asked."""
    named = [model for rule in services.config.families.sar for model in rule.models]
    return list(dict.fromkeys((*services.model_redirect.public_names().values(), *named)))[:MAX_MODELS]


def deletion_name(text: str) -> str:
    """A deletion's name out of an address; empty for what is none."""
    return text if deleted_at(text) is not None else ""
