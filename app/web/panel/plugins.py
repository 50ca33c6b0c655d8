"""Plugins and tools: the list, and for each one its state, texts, settings, a form to try it, lines of the log."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from app.config.edited_file import EditConflictError, EditedFile
from app.errors import BadRequestError, NotFoundError, both
from app.extend import DeclaredRoute, PageGroup, PanelPage, SearchHit, ToolSpec
from app.observe.log_tail import lines_about
from app.plugins.discovery import Plugin
from app.plugins.manifest import Manifest, manifest_of
from app.plugins.manifest_view import far_manifest, full_manifest
from app.plugins.person_files import command_described, command_of
from app.plugins.plugin_edit import Installed
from app.plugins.settings_form import filled_in, setting_fields
from app.plugins.stdio import tool_spec
from app.protocol.json_text import pretty_json
from app.services.plugin_hosts import plugin_folders
from app.services.tool_overview import SOURCES, STATES, source_of, static_state, tool_rows
from app.services.tool_watch import tool_records
from app.tools.descriptions import describe
from app.web.admin.bodies import whole_number
from app.web.admin.plugins import description_of, switch_plugin
from app.web.panel.frame import Panel, panel_route
from app.web.panel.trial import Trials

PER_PAGE = 100
MAX_WORDS = 200
MAX_PROBLEMS = 100
LOG_LINES = 100
SHOWN_CHARS = 40_000
"""Of a manifest, of a description, of all values together in a page."""

EMPTY_FILE = EditedFile("", "")

Values = Callable[[Request, str, Installed | None, ToolSpec | None], Awaitable[dict[str, Any]]]
"""What one tab of a plugin's page shows."""


class PluginsPart:
    """The pages of plugins. What is known of calls counts from the start of the server."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._services = panel.services
        self._records = tool_records(panel.services)
        self._trials = Trials(panel)
        self._tabs: Mapping[str, Values] = {
            "overview": self._overview_values,
            "texts": self._texts_values,
            "settings": self._settings_values,
            "file": self._file_values,
            "try": self._try_values,
            "log": self._log_values,
        }

    def pages(self) -> Sequence[PanelPage]:
        """One entry; each plugin has a page below it."""
        words = "plugin tool manifest 工具 清单 启用 禁用 测试 try"
        return (PanelPage("plugins", PageGroup.TOOLS, "插件与工具", "Plugins and tools", 10, words),)

    def routes(self) -> Sequence[DeclaredRoute]:
        """Pages, and what their forms do."""
        actions = {
            "switch": self._switch,
            "describe": self._describe,
            "preview": self._preview,
            "settings": self._save_settings,
            "run": self._run_now,
            "reload": self._reload,
            "try": self._trials.run,
        }
        return (
            panel_route("/plugins", self._list),
            panel_route("/plugins/{name:path}", self._show),
            panel_route("/plugin-fields/{name:path}", self._trials.fields),
            *(panel_route(f"/plugin-{action}/{{name:path}}", answer, "POST") for action, answer in actions.items()),
        )

    async def find(self, words: str, limit: int) -> Sequence[SearchHit]:
        """Plugins and tools by name."""
        rows = await asyncio.to_thread(tool_rows, self._services)
        found = [row for row in rows if words.lower() in f"{row.name} {row.display}".lower()]
        return [
            SearchHit(f"插件 {row.display}", f"Plugin {row.display}", page_of(row.name), row.name)
            for row in found[:limit]
        ]

    # --- the list ---------------------------------------------------------------------------------------------------

    async def _list(self, request: Request) -> Response:
        asked = request.query_params
        words = asked.get("q", "").strip()[:MAX_WORDS]
        source = asked.get("source", "") if asked.get("source") in SOURCES else ""
        state = asked.get("state", "") if asked.get("state") in STATES else ""
        rows = await asyncio.to_thread(tool_rows, self._services)
        found = [
            row
            for row in rows
            if words.lower() in f"{row.name} {row.display} {row.where}".lower()
            and source in ("", row.source)
            and state in ("", row.state)
        ]
        pages = max(1, -(-len(found) // PER_PAGE))
        page = min(whole_number(request, "page"), pages)
        shown = found[(page - 1) * PER_PAGE : page * PER_PAGE]
        values: dict[str, Any] = {
            "rows": [(row, self._records.of(row.name), page_of(row.name), row_id(row.name)) for row in shown],
            "total": len(rows),
            "found": len(found),
            "number_of_page": page,
            "pages": pages,
            "words": words,
            "source": source,
            "state": state,
        }
        if _wants_piece(request):
            return self._panel.fragment(request, "plugins_rows.html", **values)
        problems = self._services.found_plugins.problems
        return self._panel.page(
            request,
            "plugins.html",
            "plugins",
            problems=problems[:MAX_PROBLEMS],
            more_problems=max(0, len(problems) - MAX_PROBLEMS),
            **values,
        )

    # --- one of them ------------------------------------------------------------------------------------------------

    async def _show(self, request: Request) -> Response:
        name = request.path_params["name"]
        installed, spec = await self._named(name)
        tabs = ["overview"]
        if installed is not None and installed.manifest is not None:
            tabs += ["texts", "settings", "file"]
        if self._trials.listed(name):
            tabs.append("try")
        tabs.append("log")
        tab = request.query_params.get("tab", "")
        tab = tab if tab in tabs else tabs[0]
        values = await self._tabs[tab](request, name, installed, spec)
        row = next((one for one in await asyncio.to_thread(tool_rows, self._services) if one.name == name), None)
        shared = {
            "name": name,
            "tab": tab,
            "tabs": tabs,
            "row": row,
            "address": page_of(name),
            "installed": installed,
            "spec": spec,
            "display": spec.display if spec is not None else row.display if row is not None else name,
        }
        return self._panel.page(request, "plugin.html", "plugins", **{**shared, **values})

    async def _named(self, name: str) -> tuple[Installed | None, ToolSpec | None]:
        """The plugin of this machine and the tool that have this name; raises NotFoundError when there is neither."""
        spec = self._services.router.specs().get(name)
        try:
            folders = plugin_folders(self._services.in_force)
            installed = await asyncio.to_thread(folders.named, self._services.found_plugins, name)
        except NotFoundError:
            if spec is None:
                raise
            return None, spec
        return installed, spec

    async def _overview_values(
        self, _request: Request, name: str, installed: Installed | None, spec: ToolSpec | None
    ) -> dict[str, Any]:
        static = static_state(self._services, name)
        texts = self._services.statics.texts((name,)) if static is not None else {}
        if installed is not None:
            environ = self._services.plugin_environ()
            manifest = await asyncio.to_thread(full_manifest, installed, environ)
        elif spec is not None:
            manifest = far_manifest(spec, source_of(spec)[1])
        else:
            manifest = {}
        return {
            "record": self._records.of(name),
            "static": static,
            "values": [
                (key, text[: SHOWN_CHARS // len(texts)], len(text), len(text) > SHOWN_CHARS // len(texts))
                for key, text in texts.items()
            ],
            "manifest": _shown(pretty_json(manifest)),
            "listed": [one.name for one in self._trials.listed(name)],
            "described": _shown(describe(spec) or "") if spec is not None else "",
        }

    async def _texts_values(
        self, _request: Request, name: str, installed: Installed | None, spec: ToolSpec | None
    ) -> dict[str, Any]:
        assert installed is not None and installed.manifest is not None
        version = await asyncio.to_thread(plugin_folders(self._services.in_force).texts_version, installed)
        return {
            "forms": _text_forms(installed.manifest),
            "fingerprint": version,
            "preview": _preview(installed.manifest),
        }

    async def _settings_values(
        self, _request: Request, name: str, installed: Installed | None, spec: ToolSpec | None
    ) -> dict[str, Any]:
        assert installed is not None
        return await self._settings_form(installed)

    async def _settings_form(self, installed: Installed, saved: bool = False, fault: str = "") -> dict[str, Any]:
        file = await self._config(installed)
        assert installed.manifest is not None
        return {
            "fields": setting_fields(installed.manifest, file.text, self._services.plugin_environ()),
            "fingerprint": file.fingerprint,
            "saved": saved,
            "fault": fault,
        }

    async def _file_values(
        self, _request: Request, name: str, installed: Installed | None, spec: ToolSpec | None
    ) -> dict[str, Any]:
        assert installed is not None
        return {"file": await self._config(installed), "place": _place(installed)}

    async def _try_values(
        self, request: Request, name: str, installed: Installed | None, spec: ToolSpec | None
    ) -> dict[str, Any]:
        return self._trials.values(name, request.query_params.get("command", ""))

    async def _log_values(
        self, _request: Request, name: str, installed: Installed | None, spec: ToolSpec | None
    ) -> dict[str, Any]:
        lines = await asyncio.to_thread(lines_about, self._services.in_force.home, name, LOG_LINES)
        return {"lines": lines, "limit": LOG_LINES}

    async def _config(self, installed: Installed) -> EditedFile:
        folders = plugin_folders(self._services.in_force)
        return await asyncio.to_thread(folders.read_config, installed) or EMPTY_FILE

    # --- what forms do ----------------------------------------------------------------------------------------------

    async def _switch(self, request: Request) -> Response:
        name, enable = request.path_params["name"], (await self._panel.form(request)).get("enable")
        if enable not in ("true", "false"):
            raise BadRequestError(both("缺少 enable", "enable is missing"))
        await switch_plugin(self._services, name, enable=enable == "true")
        if request.headers.get("hx-target", "").startswith("plugin-row"):
            rows = await asyncio.to_thread(tool_rows, self._services)
            row = next(one for one in rows if one.name == name)
            return self._panel.fragment(
                request,
                "plugins_row.html",
                row=row,
                record=self._records.of(name),
                address=page_of(name),
                ident=row_id(name),
            )
        return _refreshed()

    async def _describe(self, request: Request) -> Response:
        form = await self._panel.form(request)
        text, command = description_of(form.get("text", "").replace("\r\n", "\n")), form.get("command", "")
        installed = await self._local(request)
        folders = plugin_folders(self._services.in_force)
        try:
            if command:
                await asyncio.to_thread(folders.describe_command, installed, command, text, form.get("version", ""))
            else:
                await asyncio.to_thread(folders.describe, installed, text, form.get("version", ""))
        except EditConflictError:
            version = await asyncio.to_thread(folders.texts_version, installed)
            values = _conflict(installed, command, text) | {"fingerprint": version, "name": installed.name}
            return self._panel.fragment(request, "plugin_texts_conflict.html", **values)
        await self._services.reload()
        installed = await self._local(request)
        values = await self._texts_values(request, installed.name, installed, None)
        return self._panel.fragment(request, "plugin_texts.html", name=installed.name, saved=True, **values)

    async def _preview(self, request: Request) -> Response:
        form = await self._panel.form(request)
        installed = await self._local(request)
        assert installed.manifest is not None
        manifest, command = installed.manifest, form.get("command", "")
        if command:
            raw = command_described(manifest.raw, command, description_of(form.get("text", "")))
            manifest = manifest_of(raw, installed.folder)
        return self._panel.fragment(request, "plugin_preview.html", preview=_preview(manifest))

    async def _save_settings(self, request: Request) -> Response:
        form = await self._panel.form(request)
        installed = await self._local(request)
        assert installed.manifest is not None
        file = await self._config(installed)
        given = {key.removeprefix("set:"): value for key, value in form.items() if key.startswith("set:")}
        fields = setting_fields(installed.manifest, file.text, self._services.plugin_environ())
        fault = ""
        if form.get("version", "") != file.fingerprint:
            fault = both(
                "文件在此期间被改动，尚未保存：请核对后再保存",
                "the file was changed meanwhile, and nothing is saved yet: look, then save again",
            )
        else:
            text = filled_in(fields, file.text, given)
            if text != file.text:
                folders = plugin_folders(self._services.in_force)
                await asyncio.to_thread(folders.write_config, installed, text, file.fingerprint)
                await self._services.reload()
        values = await self._settings_form(await self._local(request), saved=not fault, fault=fault)
        return self._panel.fragment(
            request, "plugin_settings.html", name=installed.name, given=given if fault else {}, **values
        )

    async def _run_now(self, request: Request) -> Response:
        await self._services.statics.refresh(request.path_params["name"])
        return _refreshed()

    async def _reload(self, request: Request) -> Response:
        await self._services.reload()
        return _refreshed()

    async def _local(self, request: Request) -> Installed:
        name = request.path_params["name"]
        installed, _spec = await self._named(name)
        if installed is None or installed.manifest is None:
            raise NotFoundError(both(f"没有插件 {name[:64]!r}", f"Plugin '{name[:64]}' not found."))
        return installed


def page_of(name: str) -> str:
    """The address of a plugin's page."""
    return f"/AdminPanel/plugins/{quote(name, safe='/')}"


def row_id(name: str) -> str:
    """The id of a row in the list."""
    return f"plugin-row-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _wants_piece(request: Request) -> bool:
    return "hx-request" in request.headers and "hx-history-restore-request" not in request.headers


def _refreshed() -> Response:
    """Lets htmx load the page anew."""
    return Response(status_code=204, headers={"HX-Refresh": "true"})


def _shown(text: str) -> str:
    """A text of a bearable length, which says so where it was cut."""
    if len(text) <= SHOWN_CHARS:
        return text
    left_out = len(text) - SHOWN_CHARS
    return text[:SHOWN_CHARS] + f"\n[… {both(f'省略 {left_out} 个字符', f'{left_out} characters are left out')}]"


def _place(installed: Installed) -> str:
    return f"{installed.config.parent.parent.name}/{installed.config.parent.name}/{installed.config.name}"


def _text_forms(manifest: Manifest) -> list[dict[str, str]]:
    forms = [{"command": "", "title": "", "text": manifest.description}]
    seen: set[str] = set()
    for command in manifest.commands:
        if not command.id or command.id in seen or command_of(manifest.raw, command.id) is None:
            continue  # one that has no name of its own cannot be told from others
        seen.add(command.id)
        forms.append({"command": command.id, "title": command.title or command.id, "text": command.description})
    return forms


def _preview(manifest: Manifest) -> str:
    return _shown(describe(tool_spec(Plugin(manifest, Path()))) or "")


def _conflict(installed: Installed, command: str, mine: str) -> dict[str, Any]:
    assert installed.manifest is not None
    theirs = installed.manifest.description
    if command:
        found = command_of(installed.manifest.raw, command) or {}
        theirs = str(found.get("description", ""))
    return {"command": command, "mine": mine, "theirs": theirs}
