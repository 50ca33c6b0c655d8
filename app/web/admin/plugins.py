"""Plugins for administrators: ``/admin_api/plugins`` and ``/admin_api/preprocessors`` (vcp-core 8.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.config.edited_file import FileTooLargeError
from app.errors import BadRequestError, NotFoundError, both
from app.extend import DeclaredRoute, Json
from app.plugins.manifest_view import far_manifest, full_manifest
from app.plugins.plugin_edit import MAX_TEXT_CHARS, Installed
from app.plugins.preprocessor_order import write_order
from app.protocol.admin_messages import plugin_switched
from app.services import Services
from app.services.plugin_hosts import plugin_folders
from app.web.admin.bodies import admin_route, content_of, etag, expected_version, json_object
from app.web.errors import JsonResponse

BODY_LIMIT = 6 * 1024 * 1024
"""Bytes of a request body: a settings file of 4 MiB, escaped."""

MAX_ORDER = 10_000
NODE_ORIGIN = "node:"
"""What stands before the name of a node in the origin of its tools."""


class PluginRoutes:
    """The ``RouteSource`` of plugins. What changes a plugin puts it in force before it answers."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes = (
            admin_route("/plugins", self._list),
            admin_route("/plugins/{name}/toggle", self._toggle, "POST"),
            admin_route("/plugins/{name}/description", self._describe, "POST"),
            admin_route("/plugins/{name}/config", self._read_config),
            admin_route("/plugins/{name}/config", self._write_config, "POST"),
            admin_route("/plugins/{name}/commands/{command}/description", self._describe_command, "POST"),
            admin_route("/preprocessors/order", self._order),
            admin_route("/preprocessors/order", self._reorder, "POST"),
        )

    def routes(self) -> Sequence[DeclaredRoute]:
        """All routes, always the same."""
        return self._routes

    async def _list(self, _request: Request) -> Response:
        return JsonResponse(await asyncio.to_thread(self._here) + self._far())

    def _here(self) -> list[Json]:
        folders, environ = plugin_folders(self._services.in_force), self._services.plugin_environ()
        listed: list[Json] = []
        for one in folders.installed(self._services.found_plugins):
            try:
                config = folders.read_config(one)
            except (OSError, FileTooLargeError):  # the search has told of it; the list must not fail for one file
                config = None
            listed.append(
                {
                    "name": one.name,
                    "manifest": full_manifest(one, environ),
                    "enabled": one.enabled,
                    "configEnvContent": config.text if config is not None else None,
                    "isDistributed": False,
                    "serverId": None,
                }
            )
        return listed

    def _far(self) -> list[Json]:
        return [
            {
                "name": spec.name,
                "manifest": far_manifest(spec, spec.origin.removeprefix(NODE_ORIGIN)),
                "enabled": True,
                "configEnvContent": None,
                "isDistributed": True,
                "serverId": spec.origin.removeprefix(NODE_ORIGIN),
            }
            for spec in self._services.router.specs().values()
            if spec.origin.startswith(NODE_ORIGIN)
        ]

    async def _toggle(self, request: Request) -> Response:
        enable = (await json_object(request, BODY_LIMIT)).get("enable")
        if not isinstance(enable, bool):
            raise BadRequestError(both("缺少布尔值 enable", "Invalid request body: enable is a boolean"))
        name = request.path_params["name"]
        already = await switch_plugin(self._services, name, enable=enable)
        return JsonResponse({"message": plugin_switched(name, enabled=enable, already=already)})

    async def _describe(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        text, expected = description_of(content_of(body, "description")), expected_version(request, body)
        one = await self._named(request)
        version = await asyncio.to_thread(plugin_folders(self._services.in_force).describe, one, text, expected)
        return await self._saved(both(f"插件 {one.name} 的描述已更新。", f"{one.name}: description saved."), version)

    async def _describe_command(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        text, expected = description_of(content_of(body, "description")), expected_version(request, body)
        one, command = await self._named(request), request.path_params["command"]
        folders = plugin_folders(self._services.in_force)
        version = await asyncio.to_thread(folders.describe_command, one, command, text, expected)
        message = both(f"插件 {one.name} 的命令 {command} 描述已更新。", f"{one.name}: description of {command} saved.")
        return await self._saved(message, version)

    async def _read_config(self, request: Request) -> Response:
        folders, one = plugin_folders(self._services.in_force), await self._named(request)
        config = await asyncio.to_thread(folders.read_config, one)
        if config is None:
            raise NotFoundError(both(f"插件 {one.name} 还没有 config.env", f"{one.name} has no config.env yet"))
        return JsonResponse({"content": config.text}, headers=etag(config.fingerprint))

    async def _write_config(self, request: Request) -> Response:
        body = await json_object(request, BODY_LIMIT)
        text, expected = content_of(body), expected_version(request, body)
        folders, one = plugin_folders(self._services.in_force), await self._named(request)
        version = await asyncio.to_thread(folders.write_config, one, text, expected)
        return await self._saved(both(f"插件 {one.name} 的配置已保存。", f"{one.name}: settings saved."), version)

    async def _saved(self, message: str, version: str) -> Response:
        await self._services.reload()
        return JsonResponse({"message": message}, headers=etag(version))

    async def _named(self, request: Request) -> Installed:
        return await named_plugin(self._services, request.path_params["name"])

    async def _order(self, _request: Request) -> Response:
        manifests = {plugin.name: plugin.manifest for plugin in self._services.found_plugins.plugins}
        names = await asyncio.to_thread(self._preprocessors)
        order = [
            {
                "name": name,
                "displayName": manifests[name].display if name in manifests else name,
                "description": manifests[name].description if name in manifests else "",
            }
            for name in names
        ]
        return JsonResponse({"status": "success", "order": order})

    async def _reorder(self, request: Request) -> Response:
        try:
            order = (await json_object(request, BODY_LIMIT)).get("order")
        except BadRequestError as error:
            return JsonResponse({"status": "error", "message": error.message}, error.status)
        if not isinstance(order, list) or len(order) > MAX_ORDER or not all(isinstance(name, str) for name in order):
            wrong = both("order 应是名称的列表", "Invalid request body: order is a list of names")
            return JsonResponse({"status": "error", "message": wrong}, 400)
        await asyncio.to_thread(write_order, self._services.config.home, dict.fromkeys(order))
        names: list[Json] = list(await asyncio.to_thread(self._preprocessors))
        message = both("预处理器顺序已保存。", "The order of preprocessors is saved.")
        return JsonResponse({"status": "success", "message": message, "newOrder": names})

    def _preprocessors(self) -> list[str]:
        return [step.name for step in self._services.in_process.preprocessors()]


def description_of(text: str) -> str:
    """A description of a bearable length; raises BadRequestError."""
    if len(text) > MAX_TEXT_CHARS:
        raise BadRequestError(
            both(f"描述超过 {MAX_TEXT_CHARS} 个字符", f"the description has more than {MAX_TEXT_CHARS} characters")
        )
    return text


async def named_plugin(services: Services, name: str) -> Installed:
    """The plugin of this machine that has the name; raises NotFoundError."""
    return await asyncio.to_thread(plugin_folders(services.in_force).named, services.found_plugins, name)


async def switch_plugin(services: Services, name: str, *, enable: bool) -> bool:
    """Switch a plugin and put that in force; true when it was so already. Raises NotFoundError, OSError."""
    folders, one = plugin_folders(services.in_force), await named_plugin(services, name)
    if one.enabled is enable:
        return True
    if enable:
        await asyncio.to_thread(folders.enable, one)
    else:
        await asyncio.to_thread(folders.disable, one, services.found_plugins)
    await services.reload()
    return False
