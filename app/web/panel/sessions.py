"""Who is logged in to the panel: random tokens in a cookie, of which only hashes are kept, over restarts too (D85)."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small

log = logging.getLogger(__name__)

SESSIONS_FILE = Path(".vcp") / "panel_sessions.json"
SESSION_SECONDS = 30 * 24 * 3600.0
MAX_SESSIONS = 100
"""Logins at a time; the oldest ends for a further one."""

_MAX_BYTES = 1024 * 1024
_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Session:
    """``binding`` holds the session to the name and the password that it began with."""

    binding: str
    until: float


class Sessions:
    """Logins at the panel. A change of name or password ends all of them.

    ``clock`` gives seconds since the epoch. A disk that takes no writes costs the logins their life over a restart.
    """

    def __init__(self, home: Path, credentials: Callable[[], tuple[str, str]], clock: Callable[[], float]) -> None:
        self._path = home / SESSIONS_FILE
        self._credentials = credentials
        self._clock = clock
        self._sessions: dict[str, _Session] | None = None

    def begin(self) -> str:
        """A new login; the token for its cookie."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        sessions = self._live()
        sessions[_name(token)] = _Session(self._binding(token), self._clock() + SESSION_SECONDS)
        while len(sessions) > MAX_SESSIONS:
            del sessions[next(iter(sessions))]
        self._save()
        return token

    def valid(self, token: str) -> bool:
        """Whether this token's login holds now."""
        session = self._all().get(_name(token)) if token else None
        if session is None or session.until <= self._clock():
            return False
        return hmac.compare_digest(session.binding, self._binding(token))

    def end(self, token: str) -> None:
        """End this login; one that is none is no fault."""
        if self._all().pop(_name(token), None) is not None:
            self._save()

    def end_all(self) -> None:
        """End all logins."""
        self._sessions = {}
        self._save()

    def _binding(self, token: str) -> str:
        name, password = self._credentials()
        text = f"{len(name)}:{name}{password}".encode("utf-8", "surrogateescape")
        return hmac.new(token.encode("utf-8", "surrogateescape"), text, hashlib.sha256).hexdigest()

    def _live(self) -> dict[str, _Session]:
        now = self._clock()
        self._sessions = {name: one for name, one in self._all().items() if one.until > now}
        return self._sessions

    def _all(self) -> dict[str, _Session]:
        if self._sessions is None:
            self._sessions = _read(self._path)
        return self._sessions

    def _save(self) -> None:
        kept = {name: [one.binding, one.until] for name, one in (self._sessions or {}).items()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._path, json.dumps(kept).encode(), 0o600)
        except OSError as fault:
            log.warning("logins of the panel end with this process: %s: %s", self._path.name, fault.strerror or fault)


def _name(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _read(path: Path) -> dict[str, _Session]:
    try:
        kept = json.loads(read_small(path, _MAX_BYTES))
        return {str(name): _Session(str(binding), float(until)) for name, (binding, until) in kept.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as fault:
        log.warning("the logins of the panel cannot be read, everybody logs in again: %s", type(fault).__name__)
        return {}
