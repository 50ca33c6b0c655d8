"""Routes, model APIs, files, and parts that start and stop with the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
    Only HTTP routes are served so, no mounted applications; a WebSocket is a ``DeclaredSocket``.
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


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A copy of a file that is there already: whose file it is, and the holder's word for its state, if it has one."""

    holder: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file of somebody: ``content`` is None when the copy that is there already is still the file.

    ``holder`` names who has it, ``version`` changes when the file does (empty: the holder does not tell).
    """

    content: bytes | None
    media_type: str = ""
    holder: str = ""
    version: str = ""


class FileFetcher(Protocol):
    """Finds a file that a plugin did not have (spec 5.9)."""

    async def fetch(self, url: str, context: CallContext, known: FileCopy | None) -> FetchedFile | None:
        """The file, or None when nobody who has it is there; ``known`` is the copy that this client got before.

        A copy of another holder is never the file. Raises ``VcpError`` when the holder does not give it. A fetch must
        not call tools, for those may want files.
        """
        ...


@dataclass(frozen=True, slots=True)
class UpstreamTarget:
    """One model API: base address without ``/v1``, its key, and its proxy.

    ``proxy`` is None where the environment decides and empty for none at all. ``name`` is the ``<NAME>`` of
    ``Upstream_<NAME>_URL``, empty for that of ``API_URL``. ``max_running`` limits the requests that run there at a
    time. ``ourselves`` is true when the address is this server's own: then the depth of a chain is told to it.
    """

    base_url: str
    api_key: str = field(repr=False)
    proxy: str | None = field(default=None, repr=False)
    name: str = ""
    max_running: int | None = None
    ourselves: bool = False

    def setting(self, part: str) -> str:
        """The name in ``config.env`` of this upstream's ``URL`` or ``Key``, for messages."""
        return f"Upstream_{self.name}_{part}" if self.name else f"API_{part}"


class UpstreamResolver(Protocol):
    """Chooses the model APIs for a model."""

    def resolve(self, model: str) -> Sequence[UpstreamTarget]:
        """The targets that may serve this model, at least one, in the order in which they are asked.

        An empty model is that of a request that names none. Raises ``VcpError`` when nobody serves the model.
        """
        ...

    def targets(self) -> Sequence[UpstreamTarget]:
        """Every target there is, in order; more than one makes ``/v1/models`` a merged list."""
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
