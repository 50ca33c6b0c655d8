"""Agents and variable files for administrators: ``/admin_api/agents``, ``/admin_api/tvsvars`` (vcp-core 8.2).

``/admin_api/panel/texts/<agents|variables>`` has what the reference has not: rename, trash, restore.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from app.errors import BadRequestError, both
from app.extend import DeclaredRoute, Json
from app.prompt import agent_map_file
from app.prompt.agent_map_file import MapRow
from app.prompt.edited_texts import EditedTexts, folder_structure
from app.prompt.preview import MAX_TEXT_CHARS
from app.services import Services
from app.services.prompt_preview import placeholders_of_now, prompt_preview
from app.web.admin.bodies import (
    admin_route,
    content_of,
    etag,
    expected_version,
    json_object,
    text_of,
)
from app.web.errors import JsonResponse
from app.web.panel.language import language_of

AGENTS = "Agent"
"""The folder of agents below the home."""

PREVIEW_ROLES = ("system", "user")
SAVED = both("已保存，下一次对话生效", "Saved; the next chat uses it")


def agent_texts(services: Services) -> EditedTexts:
    """The files below ``Agent/``."""
    return EditedTexts(services.in_force.home, AGENTS, (".txt", ".md"), nested=True)


def variable_texts(services: Services) -> EditedTexts:
    """The files below ``TVStxt/``."""
    return EditedTexts(services.in_force.home, "TVStxt", (".txt",), nested=True)


def rename_text(services: Services, texts: EditedTexts, path: str, to: str) -> int:
    """Give a file another path; names of agents follow, and how many is returned. Blocks."""
    if texts.root.name == AGENTS:
        return agent_map_file.rename_agent(services.in_force.home, texts, path, to)
    texts.rename(path, to)
    return 0


class PromptFilesRoutes:
    """The ``RouteSource`` of these files, of previews and of the list of placeholders."""

    def __init__(self, services: Services) -> None:
        self._services = services
        agents, variables = (lambda: agent_texts(services)), (lambda: variable_texts(services))
        self._routes = (
            admin_route("/agents/map", self._map),
            admin_route("/agents/map", self._save_map, "POST"),
            admin_route("/agents", self._agents),
            admin_route("/agents/new-file", self._new_agent, "POST"),
            *self._files("/agents/{file:path}", agents),
            admin_route("/tvsvars", self._variables),
            *self._files("/tvsvars/{file:path}", variables),
            *self._further("/panel/texts/agents", agents),
            *self._further("/panel/texts/variables", variables),
            admin_route("/panel/agent-map", self._save_rows, "POST"),
            admin_route("/panel/placeholders", self._placeholders),
            admin_route("/panel/prompt-preview", self._preview, "POST"),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    async def _map(self, _request: Request) -> Response:
        read = await asyncio.to_thread(agent_map_file.read_agent_map, self._services.in_force.home)
        return JsonResponse(dict(read.pairs), headers=etag(read.fingerprint) if read.fingerprint else None)

    async def _save_map(self, request: Request) -> Response:
        body = await json_object(request, agent_map_file.MAX_BYTES)
        expected = expected_version(request, {})  # every key of the body is an alias
        home = self._services.in_force.home
        saved = await asyncio.to_thread(agent_map_file.write_agent_map, home, body, expected)
        return JsonResponse({"message": SAVED}, headers=etag(saved))

    async def _save_rows(self, request: Request) -> Response:
        body = await json_object(request, agent_map_file.MAX_BYTES)
        given = body.get("rows")
        if not isinstance(given, list):
            raise BadRequestError(both("rows 应为列表", "Invalid request body: rows is a list"))
        rows = [_row(one) for one in given]
        expected, home = expected_version(request, body), self._services.in_force.home
        saved = await asyncio.to_thread(agent_map_file.write_rows, home, rows, expected)
        return JsonResponse({"message": SAVED, "fingerprint": saved}, headers=etag(saved))

    async def _agents(self, _request: Request) -> Response:
        found = await asyncio.to_thread(agent_texts(self._services).files)
        paths = [line.path for line in found.files]
        return JsonResponse({"files": paths, "folderStructure": folder_structure(paths)})

    async def _variables(self, _request: Request) -> Response:
        found = await asyncio.to_thread(variable_texts(self._services).files)
        return JsonResponse({"files": [line.path for line in found.files]})

    async def _new_agent(self, request: Request) -> Response:
        body = await json_object(request)
        name = text_of(body, "fileName")
        folder = body.get("folderPath") or ""
        if not isinstance(folder, str):
            raise BadRequestError(both("folderPath 应为文本", "Invalid request body: folderPath is a text"))
        name = name if name.lower().endswith((".txt", ".md")) else f"{name}.txt"
        folder = folder.replace("\\", "/").strip("/")
        path = f"{folder}/{name}" if folder else name
        await asyncio.to_thread(agent_texts(self._services).create, path)
        return JsonResponse({"message": both(f"已创建 {path}", f"Created {path}"), "path": path})

    def _files(self, path: str, texts: Callable[[], EditedTexts]) -> tuple[DeclaredRoute, ...]:
        """Reading, saving and deleting one file."""

        async def read(request: Request) -> Response:
            folder = texts()
            file = await asyncio.to_thread(lambda: folder.read(_name(folder, request)))
            return JsonResponse({"content": file.text}, headers=etag(file.fingerprint))

        async def save(request: Request) -> Response:
            body = await json_object(request)
            content, expected, folder = content_of(body), expected_version(request, body), texts()
            saved = await asyncio.to_thread(lambda: folder.write(_name(folder, request), content, expected))
            return JsonResponse({"message": SAVED}, headers=etag(saved))

        async def delete(request: Request) -> Response:
            folder, days = texts(), self._services.settings.memory_trash_days
            now = datetime.now(UTC)
            deletion = await asyncio.to_thread(lambda: folder.delete(_name(folder, request), now, days))
            if not deletion:
                return JsonResponse({"message": both("已删除", "Deleted")})
            return JsonResponse({"message": both("已移到回收站", "Moved to the trash"), "trash": deletion})

        return (
            admin_route(path, read),
            admin_route(path, save, "POST"),
            admin_route(path, delete, "DELETE"),
        )

    def _further(self, path: str, texts: Callable[[], EditedTexts]) -> tuple[DeclaredRoute, ...]:
        """What is done with whole files: new ones, other names, the trash."""

        async def create(request: Request) -> Response:
            body = await json_object(request)
            name = text_of(body, "path")
            await asyncio.to_thread(texts().create, name)
            return JsonResponse({"message": both(f"已创建 {name}", f"Created {name}"), "path": name})

        async def rename(request: Request) -> Response:
            body = await json_object(request)
            name, to = text_of(body, "path"), text_of(body, "to")
            followed = await asyncio.to_thread(rename_text, self._services, texts(), name, to)
            return JsonResponse(
                {"message": both(f"已改名为 {to}", f"Renamed to {to}"), "path": to, "aliases": followed}
            )

        async def trash(_request: Request) -> Response:
            kept = await asyncio.to_thread(texts().trash)
            return JsonResponse({"trash": [{"id": one.id, "path": one.path} for one in kept]})

        async def restore(request: Request) -> Response:
            deletion = text_of(await json_object(request), "trash")
            restored = await asyncio.to_thread(texts().restore, deletion)
            return JsonResponse({"message": both(f"已恢复 {restored}", f"{restored} is back"), "path": restored})

        return (
            admin_route(f"{path}/new", create, "POST"),
            admin_route(f"{path}/rename", rename, "POST"),
            admin_route(f"{path}/trash", trash),
            admin_route(f"{path}/restore", restore, "POST"),
        )

    async def _placeholders(self, request: Request) -> Response:
        chinese = language_of(request) == "zh"
        lines = await placeholders_of_now(self._services)
        return JsonResponse(
            [
                {
                    "label": line.text,
                    "detail": line.chinese if chinese else line.english,
                    "apply": line.text,
                    "kind": line.kind,
                }
                for line in lines
            ]
        )

    async def _preview(self, request: Request) -> Response:
        body = await json_object(request)
        preview = await prompt_preview(
            self._services,
            preview_text(body),
            role=preview_role(body.get("role")),
            model=preview_model(body.get("model")),
            recall=body.get("recall") is True,
        )
        return JsonResponse(
            {
                "pieces": [
                    {"text": piece.text, "source": piece.source, "trust": piece.trust, "mark": piece.mark}
                    for piece in preview.pieces
                ],
                "tokens": preview.tokens,
                "characters": preview.characters,
                "cut": preview.cut,
                "later": list(preview.later),
                "unknown": list(preview.unknown),
            }
        )


def preview_text(body: Mapping[str, Json]) -> str:
    """The text to preview; raises BadRequestError without one, and for one that is too long."""
    text = content_of(body, "text")
    if len(text) > MAX_TEXT_CHARS:
        raise BadRequestError(
            both(
                f"超过 {MAX_TEXT_CHARS} 个字符，无法预览", f"more than {MAX_TEXT_CHARS} characters cannot be previewed"
            )
        )
    return text


def preview_role(value: Json) -> str:
    """The role of a previewed message: ``system`` where nothing else is said."""
    return value if value in PREVIEW_ROLES else PREVIEW_ROLES[0]


def preview_model(value: Json) -> str:
    """The model's name of a preview, empty where none is said."""
    return value.strip()[:200] if isinstance(value, str) else ""


def _name(folder: EditedTexts, request: Request) -> str:
    """The file that a path means. Older panels encode twice (8.1 [S]); a file of the plain name comes first."""
    name: str = request.path_params["file"]
    if "%" not in name or folder.exists(name):
        return name
    return unquote(name)


def _row(value: Json) -> MapRow:
    alias, file = (value.get("alias"), value.get("file")) if isinstance(value, dict) else (None, None)
    if not isinstance(alias, str) or not isinstance(file, str):
        raise BadRequestError(both("每行需要 alias 和 file", "Invalid request body: each row has alias and file"))
    return MapRow(alias.strip(), file.strip())
