"""Routes of in-process plugins: checked when the plugin is loaded, watched when they run (spec 1.12).

Several plugins may declare the same path with the same access. They are asked by name; one that answers 404 leaves the
request to the next, as services of one path have always done (spec 1.11).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import VcpError, both
from app.extend import Access, CallContext, DeclaredRoute, Door
from app.plugins.in_process_context import standing_in
from app.plugins.loop_watch import LoopWatch
from app.protocol.call_depth import CALL_DEPTH_HEADER, read_depth

NOT_FOUND = 404
ROUTES_LIMIT = 500
"""Most routes of one plugin."""


Busy = Callable[[], AbstractContextManager[None]]


class PluginRouteError(VcpError):
    """A route that a plugin brings cannot be served; the message names it and the reason."""

    code = "plugin_route"


def checked_routes(plugin: str, declared: object, watch: LoopWatch, busy: Busy) -> tuple[DeclaredRoute, ...]:
    """What ``routes()`` returned, in the plugin's name; raises PluginRouteError when one of them cannot be served.

    ``busy`` gives what surrounds each request, so that the plugin is known to be at work.

    Each is a ``DeclaredRoute`` over an HTTP route with an access, below any path but ``/v1``, which is the server's.
    """
    if not isinstance(declared, Sequence) or isinstance(declared, str | bytes) or len(declared) > ROUTES_LIMIT:
        raise PluginRouteError(
            both(
                f"routes() 必须返回最多 {ROUTES_LIMIT} 个 DeclaredRoute 的列表",
                f"routes() must return a list of at most {ROUTES_LIMIT} DeclaredRoute",
            )
        )
    return tuple(_checked(plugin, one, watch, busy) for one in declared)


def _checked(plugin: str, declared: object, watch: LoopWatch, busy: Busy) -> DeclaredRoute:
    path = str(getattr(getattr(declared, "route", declared), "path", declared))[:200]
    if not isinstance(declared, DeclaredRoute) or not isinstance(declared.access, Access):
        raise _refused(path, "没有声明访问权限（DeclaredRoute）", "it declares no access (DeclaredRoute)")
    route = declared.route
    if not isinstance(route, Route):
        raise _refused(path, "目前只支持 HTTP 路由", "only HTTP routes are served so far")
    first = next((part for part in path.split("/") if part), "")
    if first.lower() == "v1" or first.startswith("{"):
        raise _refused(path, "/v1 属于服务器自身", "/v1 belongs to the server itself")
    if (declared.access is Access.PATH_KEY) is not (declared.path_key is not None):
        raise _refused(path, "path_key 与访问权限不符", "path_key belongs to Access.PATH_KEY, and only to it")
    watched = copy.copy(route)
    watched.app = _Watched(plugin, route.app, watch, busy)
    return replace(declared, route=watched, brought_by=plugin)


def _refused(path: str, chinese: str, english: str) -> PluginRouteError:
    return PluginRouteError(both(f"路由 {path}：{chinese}", f"route {path}: {english}"))


def merged_routes(routes: Iterable[DeclaredRoute]) -> tuple[DeclaredRoute, ...]:
    """All routes, those with the same path, methods and access as one, in their order."""
    groups: dict[tuple[str, frozenset[str], Access], list[DeclaredRoute]] = {}
    for declared in routes:
        route = declared.route
        assert isinstance(route, Route)
        key = (route.path.lower(), frozenset(route.methods or ()), declared.access)
        groups.setdefault(key, []).append(declared)
    return tuple(_merged(group) for group in groups.values())


def _merged(group: Sequence[DeclaredRoute]) -> DeclaredRoute:
    first = group[0]
    if len(group) == 1:
        return first
    apps = [declared.route.app for declared in group if isinstance(declared.route, Route)]
    route = copy.copy(first.route)
    assert isinstance(route, Route)
    route.app = _Chain(apps)
    return replace(first, route=route, brought_by=", ".join(declared.brought_by for declared in group))


class _Watched:
    """A plugin's route: what it does in the event loop is measured in the plugin's name."""

    def __init__(self, plugin: str, app: ASGIApp, watch: LoopWatch, busy: Busy) -> None:
        self._plugin = plugin
        self._app = app
        self._watch = watch
        self._busy = busy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def work() -> None:
            await self._app(scope, receive, send)

        with self._busy(), self._standing(scope):
            await self._watch.stepped(self._plugin, work())

    def _standing(self, scope: Scope) -> AbstractContextManager[None]:
        """What the route calls stands as deep as the request, which a tool may have made; BadRequestError."""
        depth = read_depth(Headers(scope=scope).getlist(CALL_DEPTH_HEADER))
        context = CallContext(turn_id=f"plugin-{self._plugin}", door=Door.AGENT, depth=depth)
        return standing_in(context) if depth else nullcontext()


class _Chain:
    def __init__(self, apps: Sequence[ASGIApp]) -> None:
        self._apps = tuple(apps)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for app in self._apps[:-1]:
            attempt = _Attempt(send)
            await app(scope, receive, attempt.send)
            if not attempt.not_found:
                return
        await self._apps[-1](scope, receive, send)


class _Attempt:
    """Lets an answer through unless it is a 404, which is dropped."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.not_found = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.not_found = message["status"] == NOT_FOUND
        if not self.not_found:
            await self._send(message)
