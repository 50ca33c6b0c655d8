"""Which routes are served, and who may use them: each is checked before, so that none is open by oversight."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from starlette.routing import Route

from app.errors import ConfigError, both
from app.extend import Access, DeclaredRoute, PathKey, RouteSource
from app.web.paths import PathTable, Template, has_plain_parameters, segments_of

log = logging.getLogger(__name__)

ADMIN_ZONES = ("admin_api", "adminpanel")
"""What the first part of a path begins with, in any case of letters, where only administrators come in (B2)."""


def is_admin_path(path: str) -> bool:
    """True for everything that belongs to the administrators, whether there is a route or not."""
    first = path.lstrip("/").partition("/")[0]
    return first.lower().startswith(ADMIN_ZONES)


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may use one route."""

    route: Route
    template: Template
    access: Access
    path_key: PathKey | None = None


class AccessTable:
    """All routes of one moment: the path a client meant, and who may use it. What has no route needs the key.

    Routes whose access differs never fit the same path, so that a path decides alone; only of those with a key in
    the path the method may choose another one, with another key.
    """

    def __init__(self, rules: Sequence[Rule], further_paths: Iterable[str] = ()) -> None:
        self._paths = PathTable(dict.fromkeys((*(rule.template.path for rule in rules), *further_paths)))
        special = [rule for rule in rules if rule.access is not Access.KEY]
        self._fixed = {
            rule.template.path: None if rule.access is Access.KEY else rule for rule in rules if rule.template.fixed
        }
        self._others = tuple(rule for rule in special if not rule.template.fixed)
        self._without_key = tuple(filter(None, (_without_key(rule) for rule in special)))
        self._special = tuple(special)

    def canonical(self, path: str) -> str:
        """The route's own spelling of ``path``, or ``path`` itself when no route is meant."""
        return self._paths.canonical(path)

    def rule(self, path: str, method: str) -> Rule | None:
        """The rule of a canonical path; None: the key is needed."""
        if path in self._fixed:
            return self._fixed[path]
        fitting = [rule for rule in self._others if rule.route.path_regex.match(path)]
        return next((rule for rule in fitting if method in (rule.route.methods or ())), fitting[0] if fitting else None)

    def access_by_path(self) -> Mapping[str, Access]:
        """The access of every route that needs something else than the key, by the path it was declared with.

        Parameters stand in it without their kind, as in an OpenAPI document.
        """
        return {rule.route.path_format: rule.access for rule in self._special}

    def lacks_path_key(self, path: str) -> bool:
        """True for a path like ``/x/images/a.png`` where ``/pw=…/images/a.png`` would be a route (spec 1.11)."""
        if not self._without_key or self._paths.find(path) is not None:
            return False
        segments = segments_of(path)
        if not segments or segments[0].lower() == "v1":
            return False
        return any(template.spelt(segments) is not None for template in self._without_key)


def _without_key(rule: Rule) -> Template | None:
    """The template with anything in the place of the part that holds the key."""
    if rule.path_key is None:
        return None
    marks = ("{" + rule.path_key.parameter + "}", "{" + rule.path_key.parameter + ":")
    parts = rule.template.path.strip("/").split("/")
    if any(part.startswith(marks) for part in parts):
        return None  # there is nothing before the key that a client could forget
    return Template("/" + "/".join("{part}" if any(mark in part for mark in marks) else part for part in parts))


@dataclass(frozen=True, slots=True)
class Served:
    """The routes that further parts bring, as far as they are in order, and the table of all routes."""

    added: tuple[Route, ...]
    table: AccessTable


def served_routes(
    sources: Iterable[RouteSource],
    own: Sequence[Route],
    own_access: Mapping[str, Access],
    further_paths: Iterable[str] = (),
) -> Served:
    """All routes: the server's ``own``, which need the key unless ``own_access`` says otherwise, and those of sources.

    A declaration is refused when it names no access, when it is no HTTP route, when its path is one of the server's or
    fits a path of another access, when an open path has parameters, when a key in the path is not there, and when
    something in the administrators' part of the paths is not theirs. Refused routes that something ``brought_by`` names
    are left out, with a line in the log; any other raises RefusedRouteError, which names the route.
    """
    rules = [Rule(route, Template(route.path), own_access.get(route.path, Access.KEY)) for route in own]
    taken = {rule.template.path.lower() for rule in rules}
    for source in sources:
        for declared in source.routes():
            try:
                rules.append(_checked(declared, taken, rules))
            except RefusedRouteError as error:
                brought_by = getattr(declared, "brought_by", "")
                if not brought_by:
                    raise
                log.error("%s is not served: %s", brought_by, error.english)
    return Served(tuple(rule.route for rule in rules[len(own) :]), AccessTable(rules, further_paths))


def _checked(declared: DeclaredRoute, taken: set[str], rules: Sequence[Rule]) -> Rule:
    # Plugins may hand over anything.
    route, access = getattr(declared, "route", declared), getattr(declared, "access", None)
    path = str(getattr(route, "path", route))
    if not isinstance(access, Access):
        words = ", ".join(Access)
        raise RefusedRouteError(
            path, f"访问权限必须是 {words} 之一", f"its access is {access}; it must be one of {words}"
        )
    if not isinstance(route, Route):
        raise RefusedRouteError(path, "目前只支持 HTTP 路由", "only HTTP routes are served so far")
    if not has_plain_parameters(path):
        raise RefusedRouteError(
            path,
            "参数只能是 str、int、float、uuid，或位于末尾的 path",
            "its parameters may be str, int, float, uuid, and path where it is all of the last part",
        )
    if path.lower() in taken:
        raise RefusedRouteError(path, "路径已被服务器使用", "its path is one of the server's own")
    if access is Access.OPEN and "{" in path:
        raise RefusedRouteError(path, "公开的路径不能带参数", "an open path cannot have parameters")
    if access is not Access.ADMIN and is_admin_path(path):
        raise RefusedRouteError(
            path, "此路径只能属于管理员", f"its access is {access}, but the path is the administrators'"
        )
    path_key = declared.path_key
    if access is Access.PATH_KEY:
        if not isinstance(path_key, PathKey):
            raise RefusedRouteError(path, "没有说明路径中的密钥", "it does not say which key stands in its path")
        if path_key.parameter not in route.param_convertors:
            name = path_key.parameter
            raise RefusedRouteError(path, f"路径中没有参数 {name}", f"its path has no parameter {name} for the key")
    rule = Rule(route, Template(path), access, path_key if access is Access.PATH_KEY else None)
    for other in rules:
        if other.access is not access and rule.template.overlaps(other.template):
            there = other.template.path
            raise RefusedRouteError(
                path,
                f"与权限为 {other.access} 的 {there} 重叠",
                f"its access is {access}, but {there} is {other.access}",
            )
    return rule


class RefusedRouteError(ConfigError):
    """A route is not served as it was declared; ``english`` is the text for the log."""

    code = "refused_route"

    def __init__(self, path: str, chinese: str, english: str) -> None:
        self.english = f"route {path}: {english}"
        super().__init__(both(f"路由 {path}：{chinese}", self.english))
