"""Who is signed in where, and who has to: the OAuth side of all MCP servers (mcp.md 2.6; MCP-73 to MCP-79)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from app.config.durable import remove_atomic, write_atomic
from app.config.small_file import read_small
from app.errors import both
from app.extend import Clock
from app.mcp.client.oauth.callback import Callback, visit
from app.mcp.client.oauth.errors import SignInError, too_late
from app.mcp.client.oauth.kept import Kept
from app.mcp.client.oauth.provider import SignedInAuth
from app.mcp.client.oauth.registered import RegisteredClient
from app.mcp.client.oauth.store import OAuthStore
from app.mcp.client.oauth.turn import turn
from app.mcp.client.server_entry import ServerEntry, ServerKind
from app.protocol.loopback import is_loopback

SIGN_IN_SECONDS = 300.0
"""How long a person has for the browser; then the listener is closed."""

REQUEST_SECONDS = 30.0
FREE_SECONDS = 0.3
"""How long a browser flow waits for the one of another process, before it says that there is one."""

LOOK_SECONDS = 0.5
PENDING_FILE = "pending.json"
MAX_PENDING_BYTES = 64 * 1024

Lines = Callable[[], Awaitable[str | None]]
"""The next line that a person types, None at the end."""

_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPT = "application/json, text/event-stream"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SignInNeeded:
    """A server lets nobody in until a person has signed in. ``url`` is the page for that while it is waited for.

    ``since`` in seconds since the epoch; ``error`` says why the last try came to nothing. ``waited_for``: a flow in the
    background has been begun.
    """

    server: str
    since: float
    url: str = ""
    error: str = ""
    waited_for: bool = False


class SignIns:
    """OAuth for all servers of a home. ``clock`` gives seconds since the epoch.

    With ``background`` a flow begins by itself when a server wants one: its address is in the log and in ``needed``,
    and a browser on this machine can complete it.
    """

    def __init__(
        self, home: Path, *, clock: Clock = time.time, background: bool = False, seconds: float = SIGN_IN_SECONDS
    ) -> None:
        self._store = OAuthStore(home)
        self._clock = clock
        self._background = background
        self._seconds = seconds
        self._needed: dict[str, SignInNeeded] = {}
        self._told: list[Callable[[str], None]] = []
        self._flow: asyncio.Task[None] | None = None
        # The SDK logs faults of a flow with the bodies that it got, which may hold tokens; they are told here without.
        logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

    def signed_in(self, told: Callable[[str], None]) -> None:
        """Call ``told`` with a server's name when somebody has signed in there in this process."""
        self._told.append(told)

    def auth(self, entry: ServerEntry) -> httpx2.Auth | None:
        """What adds tokens to the requests to a server, refreshes them and says when a person is needed.

        None for servers that need none: on this machine's pipes, with an ``Authorization`` header of their own, or
        without https, over which no token is sent.
        """
        if not may_sign_in(entry):
            return None
        return SignedInAuth(
            entry.url,
            _registered(entry),
            self._store,
            clock=self._clock,
            needed=lambda _challenge: self._wanted(entry),
        )

    def needed(self, server: str) -> SignInNeeded | None:
        """Whether a person has to sign in at a server, as far as the last request to it has shown."""
        return self._needed.get(server)

    def worked(self, server: str) -> None:
        """A request to the server got through: nobody has to sign in there any more."""
        self._needed.pop(server, None)

    async def sign_in(self, entry: ServerEntry, show: Callable[[str], None], lines: Lines | None = None) -> bool:
        """Let a person sign in: ``show`` is given the address; false when the server lets us in as it is.

        ``lines`` are what he types meanwhile: the address at which his browser ended counts as its visit, for a browser
        on another machine. Raises SignInError.
        """
        if not may_sign_in(entry):
            raise SignInError(
                both(
                    f"MCP 服务器 {entry.name} 不使用 OAuth 登录（stdio、自带 Authorization，或不是 https）",
                    f"MCP server {entry.name} takes no OAuth sign-in: it is stdio, not https, or its entry has an "
                    "Authorization header",
                )
            )
        try:
            await asyncio.to_thread(self._store.make_folder)
            async with turn(self._store.browser_lock, FREE_SECONDS):
                done = await self._run(entry, show, lines)
        except TimeoutError:
            return await self._join(entry, show, lines)
        except OSError as error:
            raise SignInError(both("无法登录", "nobody can sign in") + f": {error.strerror or error}") from error
        self.worked(entry.name)
        if done:
            _log.info("somebody signed in at MCP server %s", entry.name)
            for told in self._told:
                told(entry.name)
        return done

    async def sign_out(self, entry: ServerEntry) -> bool:
        """Discard all tokens and registrations for a server; False when there are none. Raises OSError."""
        async with Kept(self._store, entry.url, lambda: None).turn():  # else a refresh under way would bring them back
            return await asyncio.to_thread(self._store.forget, entry.url)

    async def stop(self) -> None:
        """End the flow that waits."""
        if self._flow is not None:
            self._flow.cancel()
            await asyncio.wait({self._flow})

    # ------------------------------------------------------------------ one flow

    async def _run(self, entry: ServerEntry, show: Callable[[str], None], lines: Lines | None) -> bool:
        callback = Callback()
        await callback.open(await asyncio.to_thread(self._store.port))
        asked = False

        def shown(url: str) -> None:
            nonlocal asked
            asked = True
            self._keep_pending(entry.name, url, callback.port)
            show(url)

        reading: asyncio.Task[None] | None = None
        try:
            await asyncio.to_thread(self._store.keep_port, callback.port)
            if lines is not None:
                reading = asyncio.create_task(_pasted(lines, callback.paste))
            auth = SignedInAuth(
                entry.url,
                _registered(entry),
                self._store,
                clock=self._clock,
                browser=callback,
                show=shown,
                seconds=self._seconds,
            )
            status = await _probe(entry, auth)
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.wait({reading})
            await callback.close()
            with suppress(OSError):
                await asyncio.to_thread(remove_atomic, self._store.folder / PENDING_FILE)
        if status in (401, 403):
            raise SignInError(
                both(f"登录后服务器仍然拒绝（{status}）", f"the server refuses even so, with status {status}")
            )
        return asked

    def _keep_pending(self, server: str, url: str, port: int) -> None:
        value = {"server": server, "url": url, "port": port}
        with suppress(OSError):  # only another process would have read it
            write_atomic(self._store.folder / PENDING_FILE, json.dumps(value).encode(), mode=0o600)

    async def _join(self, entry: ServerEntry, show: Callable[[str], None], lines: Lines | None) -> bool:
        """Another process has a flow under way: show that one, hand on what is pasted, and wait for its end."""
        server, url, port = await asyncio.to_thread(self._pending)
        if server != entry.name or not url:
            other = f"MCP 服务器 {server}" if server else "另一服务器"
            raise SignInError(
                both(
                    f"正在登录{other}，请先完成，或 {self._seconds / 60:g} 分钟后再试",
                    f"somebody signs in at {f'MCP server {server}' if server else 'another server'} right now: "
                    f"complete that first, or try again in {self._seconds / 60:g} minutes",
                )
            )
        show(url)

        async def hand_on(address: str) -> bool:
            return await visit(port, address)

        reading = asyncio.create_task(_pasted(lines, hand_on)) if lines is not None else None
        try:
            async with asyncio.timeout(self._seconds):
                while (await asyncio.to_thread(self._pending))[1] == url:  # noqa: ASYNC110 - a file of another process
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise too_late() from None
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.wait({reading})
        if (await asyncio.to_thread(self._store.load, entry.url)).tokens is None:
            raise SignInError(
                both("登录没有完成，见服务器日志", "the sign-in came to nothing; the server's log says why")
            )
        return True

    def _pending(self) -> tuple[str, str, int]:
        """The flow of another process: server, address, port; empty when there is none."""
        try:
            value = json.loads(read_small(self._store.folder / PENDING_FILE, MAX_PENDING_BYTES))
            server, url, port = value["server"], value["url"], value["port"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return "", "", 0
        return (
            (server, url, port)
            if isinstance(server, str) and isinstance(url, str) and type(port) is int
            else ("", "", 0)
        )

    # ------------------------------------------------------------------ while the server runs

    def _wanted(self, entry: ServerEntry) -> None:
        """A server wants a person; the first time the log says so."""
        known = self._needed.get(entry.name)
        if known is None:
            self._needed[entry.name] = SignInNeeded(entry.name, self._clock())
            _log.warning(
                "MCP server %s lets nobody in before a person has signed in: vcp mcp-check %s --sign-in",
                entry.name,
                entry.name,
            )
            known = self._needed[entry.name]
        # Once: a server that nobody signs in at must not keep the browser flow from the others for ever.
        if self._background and not known.waited_for and (self._flow is None or self._flow.done()):
            known.waited_for = True
            self._flow = asyncio.create_task(self._in_background(entry))

    def begin(self, entry: ServerEntry) -> bool:
        """Begin a flow whose address ``needed`` tells; false for a server that takes none, or while one runs here."""
        if not may_sign_in(entry) or (self._flow is not None and not self._flow.done()):
            return False
        known = self._needed.setdefault(entry.name, SignInNeeded(entry.name, self._clock()))
        known.waited_for, known.error = True, ""
        self._flow = asyncio.create_task(self._in_background(entry))
        return True

    async def hand_on(self, server: str, address: str) -> bool:
        """Complete the flow that waits at ``server`` with the address at which a browser elsewhere ended."""
        waiting, _url, port = await asyncio.to_thread(self._pending)
        return waiting == server and await visit(port, address)

    async def _in_background(self, entry: ServerEntry) -> None:
        def show(url: str) -> None:
            needed = self._needed.get(entry.name)
            if needed is not None:
                needed.url = url
            _log.warning("a browser on this machine can sign in at MCP server %s: %s", entry.name, url)

        needed = self._needed.get(entry.name)
        try:
            await self.sign_in(entry, show)
        except SignInError as error:
            _log.warning("nobody signed in at MCP server %s: %s", entry.name, error.message)
            if needed is not None:
                needed.error = error.message
        finally:
            if needed is not None:
                needed.url = ""


def may_sign_in(entry: ServerEntry) -> bool:
    """Whether OAuth is for this server: not over pipes, not without https, not beside a key of its entry's own."""
    if entry.kind is ServerKind.STDIO or any(name.lower() == "authorization" for name in entry.headers):
        return False
    parts = urlsplit(entry.url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _registered(entry: ServerEntry) -> RegisteredClient:
    given = entry.oauth
    if given is None:
        return RegisteredClient()
    return RegisteredClient(given.client_id, given.client_secret, given.scopes)


async def _probe(entry: ServerEntry, auth: SignedInAuth) -> int:
    """Send the server something that it refuses while nobody has signed in; the status in the end."""
    headers = {**entry.headers, "Accept": _ACCEPT}
    try:
        async with (
            httpx2.AsyncClient(auth=auth, timeout=REQUEST_SECONDS, follow_redirects=False) as client,
            client.stream("POST", entry.url, json=_PING, headers=headers) as response,
        ):
            return int(response.status_code)
    except httpx2.HTTPError as error:
        raise SignInError(
            both(
                f"无法连接 MCP 服务器 {entry.name}",
                f"MCP server {entry.name} or its authorization server cannot be reached",
            )
            + f": {type(error).__name__}"
        ) from None


async def _pasted(lines: Lines, take: Callable[[str], Awaitable[bool]]) -> None:
    """Hand on what a person types until it was the address that is waited for."""
    while (line := await lines()) is not None:
        if line.strip() and await take(line):
            return
