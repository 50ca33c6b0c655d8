"""The agents of AgentAssistant for administrators: ``/admin_api/agent-assistant/config`` (vcp-core 8.2, B44)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from app.config.agent_definitions import (
    DEFAULT_HOURS,
    DEFAULT_ROUNDS,
    DEFAULT_TEMPERATURE,
    DEFAULT_TOKENS,
    MAX_AGENTS,
    MAX_NAME_CHARS,
    MAX_TEXT_CHARS,
    AgentDefinition,
    AgentDefinitions,
    number,
    read_definitions,
    write_definitions,
)
from app.config.edit_lock import edit_lock
from app.config.edited_file import EditedFile, read_edited, write_edited
from app.errors import BadRequestError, both
from app.extend import DeclaredRoute, Json
from app.protocol.half_characters import whole
from app.services import Services
from app.web.admin.bodies import admin_route, etag, expected_version, json_object
from app.web.errors import JsonResponse

PLUGIN = "AgentAssistant"
FILE_LIMIT = 8 * 1024 * 1024


class AgentAssistantRoutes:
    """The ``RouteSource`` of the agents' definitions; what is saved is in force at once."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = (
            admin_route("/agent-assistant/config", self._given),
            admin_route("/agent-assistant/config", self._saved, "POST"),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    async def definitions(self) -> tuple[AgentDefinitions, str]:
        """The agents of now and the version of the file they stand in, empty while there is none."""
        file = await asyncio.to_thread(_read, self._folder())
        own = file.fingerprint if file is not None else ""
        if file is None:
            file = await asyncio.to_thread(_example, self._folder())
        return (read_definitions(file.text) if file is not None else AgentDefinitions()), own

    async def _given(self, _request: Request) -> Response:
        definitions, fingerprint = await self.definitions()
        return JsonResponse(_as_json(definitions), headers=etag(fingerprint) if fingerprint else None)

    async def _saved(self, request: Request) -> Response:
        body = await json_object(request)
        definitions, expected = _from_json(body), expected_version(request, body)
        saved = await asyncio.to_thread(self._write, definitions, expected)
        await self._services.reload()
        message = both("AgentAssistant 配置已保存，立即生效", "The agents are saved, and in force")
        return JsonResponse({"message": message, "fingerprint": saved}, headers=etag(saved))

    def _write(self, definitions: AgentDefinitions, expected: str | None) -> str:
        folder = self._folder()
        before = _read(folder) or _example(folder)
        text = write_definitions(before.text if before is not None else "", definitions)
        folder.mkdir(parents=True, exist_ok=True)
        lock = edit_lock(self._services.in_force.home)
        return write_edited(folder / "config.env", text, expected, lock, mode=0o600)

    def _folder(self) -> Path:
        """Where the plugin's own settings lie: its folder in the installation, whatever that is called."""
        home = self._services.in_force.home
        found = next((one.folder for one in self._services.found_plugins.plugins if one.name == PLUGIN), None)
        return found if found is not None and home in found.parents else home / "Plugin" / PLUGIN


def _read(folder: Path) -> EditedFile | None:
    return _text_file(folder / "config.env")


def _example(folder: Path) -> EditedFile | None:
    return _text_file(folder / "config.env.example")


def _text_file(path: Path) -> EditedFile | None:
    """The file; None when there is none. Raises BadRequestError where writing it back would lose characters."""
    try:
        file = read_edited(path, FILE_LIMIT)
    except FileNotFoundError:
        return None
    if "\ufffd" in file.text:
        raise BadRequestError(
            both(f"{path.name} 不是 UTF-8，请先转换编码", f"{path.name} is not UTF-8; convert it first")
        )
    return file


def _as_json(definitions: AgentDefinitions) -> Mapping[str, Json]:
    return {
        "maxHistoryRounds": definitions.max_history_rounds,
        "contextTtlHours": definitions.context_ttl_hours,
        "globalSystemPrompt": definitions.global_system_prompt,
        "agents": [
            {
                "baseName": agent.base,
                "chineseName": agent.name,
                "modelId": agent.model,
                "systemPrompt": agent.system_prompt,
                "maxOutputTokens": agent.max_output_tokens,
                "temperature": agent.temperature,
                "description": agent.description,
            }
            for agent in definitions.agents
        ],
    }


def _from_json(body: Mapping[str, Json]) -> AgentDefinitions:
    agents = body.get("agents")
    if not isinstance(agents, list) or len(agents) > MAX_AGENTS:
        raise BadRequestError(
            both(
                f"agents 应为列表，最多 {MAX_AGENTS} 项",
                f"Invalid request body: agents is a list of at most {MAX_AGENTS}",
            )
        )
    return AgentDefinitions(
        int(_number(body.get("maxHistoryRounds"), DEFAULT_ROUNDS)),
        _number(body.get("contextTtlHours"), DEFAULT_HOURS),
        _text(body, "globalSystemPrompt", MAX_TEXT_CHARS),
        tuple(_agent(agent) for agent in agents if isinstance(agent, dict)),
    )


def _agent(value: Mapping[str, Json]) -> AgentDefinition:
    return AgentDefinition(
        _text(value, "baseName", MAX_NAME_CHARS).strip(),
        " ".join(_text(value, "chineseName", MAX_NAME_CHARS).split()),
        " ".join(_text(value, "modelId", 2 * MAX_NAME_CHARS).split()),
        _text(value, "systemPrompt", MAX_TEXT_CHARS),
        int(_number(value.get("maxOutputTokens"), DEFAULT_TOKENS)),
        _number(value.get("temperature"), DEFAULT_TEMPERATURE),
        _text(value, "description", MAX_TEXT_CHARS),
    )


def _text(value: Mapping[str, Json], name: str, limit: int) -> str:
    text = value.get(name) or ""
    if not isinstance(text, str) or len(text) > limit or "\0" in text:
        raise BadRequestError(
            both(f"{name} 应为不超过 {limit} 字符的文本", f"{name} is a text of at most {limit} characters")
        )
    return whole(text).replace("\r\n", "\n")


def _number(value: Json, default: float) -> float:
    if isinstance(value, bool):
        return default
    return number(str(value), default) if isinstance(value, int | float | str) else default
