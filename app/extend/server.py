"""Routes, model APIs, files, and parts that start and stop with the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from starlette.routing import BaseRoute

from app.extend.tools import CallContext


class Access(StrEnum):
    """Who may use a route. One that declares none is refused; nobody whose address is blocked comes in anywhere."""

    KEY = "key"  # whoever has the server's key
    ADMIN = "admin"  # whoever is logged in as an administrator
    PATH_KEY = "path_key"  # whoever has the key that stands in the path
    OPEN = "open"  # everybody; the path is fixed, it has no parameters
    OWN = "own"  # whoever the route itself lets in, for instance by a token of its own in the path


@dataclass(frozen=True, slots=True)
class PathKey:
    """The key that stands in a route's path (spec 1.11).

    ``parameter`` is the path parameter that holds it, as in ``/pw={key}/images/{path:path}``; ``expected`` gives the
    key of now. ``wrong`` is the text of the 401 for another key, ``missing`` that of the 500 while no key is configured
    (empty: then the route is not there, 404). All three answers are ``text/plain``.
    """

    parameter: str
    expected: Callable[[], str]
    wrong: str
    missing: str


@dataclass(frozen=True, slots=True)
class DeclaredRoute:
    """A route and its access; ``path_key`` belongs to ``Access.PATH_KEY``.

    ``brought_by`` names the plugin or setting that a route comes from: a fault in the declaration then loses this route
    only and is logged. It is empty for the server's own parts, whose faults end the start.
    Only HTTP routes are served so far, no WebSockets and no mounted applications.
    """

    route: BaseRoute
    access: Access
    path_key: PathKey | None = None
    brought_by: str = ""


class RouteSource(Protocol):
    """Something that brings routes.

    It is asked when the application is made, once more when all parts have started, and after each ``Reloaded``.
    """

    def routes(self) -> Sequence[DeclaredRoute]:
        """The routes of now, each with its declared access."""
        ...


class FileFetcher(Protocol):
    """Finds a file that a plugin did not have (spec 5.9)."""

    async def fetch(self, url: str, context: CallContext) -> tuple[bytes, str] | None:
        """Content and media type, or None when nobody has it."""
        ...


@dataclass(frozen=True, slots=True)
class UpstreamTarget:
    """One model API: base address without ``/v1``, its key, and its proxy (None: what the environment says)."""

    base_url: str
    api_key: str
    proxy: str | None = None


class UpstreamResolver(Protocol):
    """Chooses the model API for a model."""

    def resolve(self, model: str) -> UpstreamTarget:
        """The target for this model."""
        ...


class Lifecycle(Protocol):
    """A part with something to start and to stop."""

    async def start(self) -> None:
        """Begin work; called once."""
        ...

    def health(self) -> str:
        """Empty while all is well, else what is wrong in one line; asked by ``/readyz``."""
        ...

    async def stop(self) -> None:
        """End all work within bounded time; called once, also after a failed start."""
        ...
