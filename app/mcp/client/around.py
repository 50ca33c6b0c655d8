"""What the client of one MCP server gets from the rest of the program."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.extend import Json
from app.mcp.client.certificates import Certificates
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.status import ServerLimits

if TYPE_CHECKING:
    from app.mcp.client.connection import Connection, Way
    from app.mcp.client.questions import Questions


def opener() -> Callable[[ServerEntry, Around, Way | None], Coroutine[Any, Any, Connection]]:
    """What needs the SDK, whose import takes half a second: in a thread, and only where there is a server to start."""
    import app.mcp.sdk  # noqa: F401  whole, before parts of it
    from app.mcp.client.opening import connected

    return connected


@dataclass(slots=True)
class Around:
    """``environ`` is the environment of this process, and ``ours`` tells the names in it that no child inherits (D72).

    ``questions`` makes the callbacks of a new connection, ``sign_in`` what signs in at a server (an ``httpx2.Auth``);
    ``ready(server)`` is called when one lets us in.
    ``told(server, what)`` is called when its ``tools``, ``prompts`` or ``resources`` have changed, and
    ``logged(server, level, data, logger)`` when it logs. ``last_details`` is what was known of the last failure.
    """

    home: Path
    limits: Callable[[], ServerLimits]
    environ: Callable[[], Mapping[str, str]]
    ours: Callable[[str], bool]
    told: Callable[[str, str], None]
    logged: Callable[[str, str, Json, str], None]
    questions: Callable[[ServerEntry], Questions] | None = None
    sign_in: Callable[[ServerEntry], Any] | None = None
    ready: Callable[[str], None] = lambda server: None
    probe_seconds: float = 5.0
    stop_seconds: float = 2.0
    last_details: str = ""
    certificates: Certificates = field(default_factory=Certificates)
