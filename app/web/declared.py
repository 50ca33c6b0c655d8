"""Routes that further parts bring: each is checked before it is served, so that none is open by oversight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.routing import Route

from app.errors import ConfigError, both
from app.extend import Access, DeclaredRoute, RouteSource

SERVED = (Access.KEY, Access.OPEN)
"""What the gate can check; the other words of ``Access`` wait for the parts that bring their keys."""


def declared_routes(
    sources: Iterable[RouteSource], own: Sequence[Route], own_open: Iterable[str]
) -> tuple[list[Route], frozenset[str]]:
    """The routes of all sources, and all open paths, ``own_open`` of the server's ``own`` routes included.

    The gate knows an open route by its path alone: it has no parameters, and no route that needs the key answers at its
    path, whatever the method. Raises ConfigError, which names the route, when that is broken, when a route declares no
    access or one that is not served yet, when it is no HTTP route, or when its path is one of the server's.
    """
    declared = [_checked(one) for source in sources for one in source.routes()]
    routes = [route for route, _ in declared]
    opened = {route.path for route, access in declared if access is Access.OPEN} | set(own_open)
    taken = {route.path for route in own}
    for route in routes:
        if route.path in taken:
            raise _refused(route.path, "路径已被服务器使用", "its path is one of the server's own")
        if route.path in opened and "{" in route.path:
            raise _refused(route.path, "公开的路径不能带参数", "an open path cannot have parameters")
    closed = [route for route in own if route.path not in opened]
    closed += [route for route, access in declared if access is not Access.OPEN]
    for route in closed:
        for path in sorted(opened):
            if route.path_regex.match(path):
                raise _refused(route.path, f"需要密钥，却与公开的 {path} 重叠", f"it needs the key, but {path} is open")
    return routes, frozenset(opened)


def _checked(declared: DeclaredRoute) -> tuple[Route, Access]:
    route, access = getattr(declared, "route", declared), getattr(declared, "access", None)
    path = str(getattr(route, "path", route))
    if access not in SERVED:
        served = ", ".join(SERVED)
        raise _refused(path, f"访问权限必须是 {served} 之一", f"its access is {access}; it must be one of {served}")
    if not isinstance(route, Route):
        raise _refused(path, "目前只支持 HTTP 路由", "only HTTP routes are served so far")
    return route, access


def _refused(path: str, chinese: str, english: str) -> ConfigError:
    return ConfigError(both(f"路由 {path}：{chinese}", f"route {path}: {english}"))
