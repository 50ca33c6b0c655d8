"""What people and other parts are told of MCP servers, and what the client of one needs from others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.errors import VcpError
from app.extend import Json
from app.mcp.client.server_entry import ServerKind

Tool = Mapping[str, Json]
"""A tool as ``tools/list`` gives it, as JSON."""


class McpServerError(VcpError):
    """An MCP server cannot be reached, or does not answer as it should; the message is one line.

    ``details`` is all that is known, for the person who runs the server.
    """

    status = 502
    code = "mcp_server"

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class SessionLostError(McpServerError):
    """The server no longer knows our session; a fresh one may do (MCP-58)."""


class SignInNeededError(McpServerError):
    """A person has to sign in at the server first."""

    code = "mcp_sign_in"


class ToolRefusedError(McpServerError):
    """The server answered a call with an error of the protocol; the connection is well."""


class ServerState(StrEnum):
    """How a server stands."""

    IDLE = "idle"  # not running; the next call starts it
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"  # it is tried again after a pause
    SIGN_IN = "needs sign-in"  # a person has to sign in there
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server of now. ``since`` is when it came into this state (seconds since the epoch).

    ``error`` is one line of at most 200 characters without paths; ``details`` is all that is known, for the person who
    runs the server. ``tools`` can be called, ``changed`` wait for consent. ``pid`` is that of a running child.
    """

    name: str
    kind: ServerKind
    state: ServerState
    since: float
    description: str = ""
    shown: str = ""
    error: str = ""
    details: str = ""
    tools: int = 0
    changed: tuple[str, ...] = ()
    pid: int | None = None
    protocol: str = ""
    running: int = 0


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What the settings say for servers that say nothing else: seconds, and bytes of one result (MCP-53, MCP-55)."""

    connect_seconds: float = 30.0
    call_seconds: float = 60.0
    call_max_seconds: float = 600.0
    idle_seconds: float = 600.0
    result_bytes: int = 8 * 1024 * 1024


class JudgedTools(Protocol):
    """A server's tools: those that may be used, and those that wait for a person's consent."""

    @property
    def allowed(self) -> Sequence[Tool]: ...

    @property
    def changed(self) -> Sequence[ChangedName]: ...


class ChangedName(Protocol):
    """A tool that has changed."""

    @property
    def name(self) -> str: ...


class ConsentStore(Protocol):
    """Keeps what servers list and says which of it may be used (MCP-55)."""

    async def judge(self, server: str, tools: Sequence[Tool], identity: str = "") -> JudgedTools:
        """Judge the list of now and keep it."""
        ...

    async def cached(self, server: str, identity: str = "") -> JudgedTools | None:
        """The last list, judged; None when there is none of this server and identity."""
        ...

    def changed(self, told: Callable[[str], None]) -> None:
        """Call ``told`` with a server's name when a person has consented to changed tools of it."""
        ...
