"""``.vcp/mcp_oauth``: tokens and registrations for MCP servers, a file for each server and issuer (MCP-78; mcp.md 2.6).

Files are 0600 in a folder 0700, replaced whole. Their names are digests of the server's address and of the issuer.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from mcp.shared.auth_utils import resource_url_from_server_url
from pydantic import ValidationError

from app.config.durable import remove_atomic, write_atomic
from app.config.small_file import read_small

OAUTH_FOLDER = Path(".vcp") / "mcp_oauth"
PORT_FILE = "port"
LOCKS = "locks"
MAX_FILE_BYTES = 1024 * 1024
MAX_CHALLENGE_CHARS = 4_000

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Credentials:
    """What is known of one server at one issuer. ``expires_at`` in seconds since the epoch, None: nobody said.

    ``challenge`` is the server's word when it wanted more scopes than the token has (MCP-77); empty when it does not.
    """

    issuer: str = ""
    client: OAuthClientInformationFull | None = None
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    metadata: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    challenge: str = ""


class OAuthStore:
    """The files of one home. All methods block; those that write raise OSError."""

    def __init__(self, home: Path) -> None:
        self.folder = home / OAUTH_FOLDER

    def make_folder(self) -> None:
        """Make the folder, for us alone, with the one for locks."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / LOCKS).mkdir(mode=0o700, exist_ok=True)

    def refresh_lock(self, server_url: str) -> Path:
        """Who refreshes a token of this server holds it; each server has its own, since one may be slow."""
        return self.folder / LOCKS / _digest(resource_url_from_server_url(server_url))

    @property
    def browser_lock(self) -> Path:
        """Who waits for a person's browser holds it."""
        return self.folder / LOCKS / "browser"

    def signature(self, server_url: str) -> tuple[object, ...]:
        """Changes when another process has written something about this server."""
        found = self._files(server_url)
        return tuple((path.name, path.stat().st_mtime_ns, path.stat().st_ino) for path in found)

    def load(self, server_url: str) -> Credentials:
        """What is kept for a server; empty when there is nothing that can be used."""
        for path in self._files(server_url):
            try:
                data = read_small(path, MAX_FILE_BYTES + 1)
                value = json.loads(data) if len(data) <= MAX_FILE_BYTES else None
                if isinstance(value, dict) and value.get("server") == resource_url_from_server_url(server_url):
                    return _credentials(value)
                raise ValueError("it is of another server or too large")
            except OSError as error:
                _log.warning("%s cannot be read: %s", path, error.strerror or error)
            except ValidationError:  # its text would hold what it is about
                _log.warning("%s cannot be used: it does not have the shape of credentials", path)
            except (ValueError, RecursionError) as error:
                _log.warning("%s cannot be used: %s", path, error)
        return Credentials()

    def save(self, server_url: str, credentials: Credentials) -> None:
        """Keep this in place of whatever is kept for the server; what another issuer gave is discarded."""
        self.make_folder()
        target = self.folder / f"{_digest(resource_url_from_server_url(server_url))}.{_digest(credentials.issuer)}.json"
        value = {"server": resource_url_from_server_url(server_url), **_written(credentials)}
        write_atomic(target, json.dumps(value, separators=(",", ":")).encode(), mode=0o600)
        for path in self._files(server_url):
            if path.name != target.name:
                remove_atomic(path)

    def forget(self, server_url: str) -> bool:
        """Discard all that is kept for a server; False when there is nothing."""
        found = self._files(server_url)
        for path in found:
            remove_atomic(path)
        return bool(found)

    def port(self) -> int:
        """The port of the last sign-in, 0 when there was none."""
        try:
            text = read_small(self.folder / PORT_FILE, 16).decode("ascii", "replace").strip()
        except OSError:
            return 0
        return int(text) if text.isascii() and text.isdecimal() and 1024 <= int(text) <= 65535 else 0

    def keep_port(self, port: int) -> None:
        """The next sign-in uses this port again, since registrations name it."""
        self.make_folder()
        write_atomic(self.folder / PORT_FILE, f"{port}\n".encode(), mode=0o600)

    def _files(self, server_url: str) -> list[Path]:
        prefix = _digest(resource_url_from_server_url(server_url))
        return sorted(self.folder.glob(f"{prefix}.*.json"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _credentials(value: dict[str, Any]) -> Credentials:
    issuer, expires_at, challenge = (value.get(part) for part in ("issuer", "expires_at", "challenge"))
    return Credentials(
        issuer if isinstance(issuer, str) else "",
        OAuthClientInformationFull.model_validate(value["client"]) if value.get("client") else None,
        OAuthToken.model_validate(value["tokens"]) if value.get("tokens") else None,
        float(expires_at) if isinstance(expires_at, int | float) and not isinstance(expires_at, bool) else None,
        OAuthMetadata.model_validate(value["metadata"]) if value.get("metadata") else None,
        ProtectedResourceMetadata.model_validate(value["resource"]) if value.get("resource") else None,
        challenge[:MAX_CHALLENGE_CHARS] if isinstance(challenge, str) else "",
    )


def _written(credentials: Credentials) -> dict[str, Any]:
    models = {
        "client": credentials.client,
        "tokens": credentials.tokens,
        "metadata": credentials.metadata,
        "resource": credentials.resource,
    }
    return {
        "issuer": credentials.issuer,
        "expires_at": credentials.expires_at,
        "challenge": credentials.challenge[:MAX_CHALLENGE_CHARS],
        **{name: model and model.model_dump(mode="json", exclude_none=True) for name, model in models.items()},
    }
