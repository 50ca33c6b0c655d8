"""This machine as a node: connects to the main server, serves it, connects again (spec 6.4, node side; P82, P83)."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from websockets.exceptions import WebSocketException

from app import __version__
from app.config.settings import Settings
from app.errors import both
from app.extend import BackgroundResult, Event, Reloaded
from app.node import offer
from app.node.calls import CallLimits, Calls
from app.node.files import SharedFiles
from app.node.forwards import FORWARDS_FILE, Forwards
from app.node.line import MEBIBYTE, Line, open_line
from app.node.machine import local_addresses
from app.node.main_server import MainServer, proxy_for
from app.node.pauses import Pauses
from app.node.session import FIRST_TEXTS_SECONDS, TEXTS_SECONDS, Session, SessionParts
from app.node.trouble import Trouble, trouble_of
from app.services import Services

log = logging.getLogger(__name__)

QUEUED_MESSAGES = 4
"""Longest messages that may wait for a main server that does not read, and those that calls that run came with."""

GONE_TEXTS = 500
"""Placeholders that are no more and of which the main server is still told so."""

END_SECONDS = 5.0
"""Longest time for ending calls after their grace."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who the node is and whom it serves.

    ``key`` gives the key of now. ``labels`` and ``roots`` are those of the command line, beside those of the settings.
    ``tls`` is for ``wss``, None otherwise.
    """

    name: str
    main: MainServer
    key: Callable[[], str]
    labels: Sequence[str] = ()
    roots: Sequence[Path] = ()
    tls: ssl.SSLContext | None = None


class Node:
    """A node over the parts of one home.

    ``tell`` is called with a line for people whenever the state of the connection is another one. ``timer`` gives
    seconds of a steady clock; the last two are the pauses before texts of static plugins.
    """

    def __init__(
        self,
        services: Services,
        identity: NodeIdentity,
        pauses: Pauses,
        tell: Callable[[str], None],
        timer: Callable[[], float],
        *,
        first_texts_seconds: float = FIRST_TEXTS_SECONDS,
        texts_seconds: float = TEXTS_SECONDS,
    ) -> None:
        self._services = services
        self._identity = identity
        self._pauses = pauses
        self._tell = tell
        self._timer = timer
        self._line: Line | None = None
        self._session: Session | None = None
        self._said = ""
        self._tried = ""
        self._opened: float | None = None
        self._told_texts: dict[str, None] = {}
        self._try_now = asyncio.Event()
        self.offer = offer.CurrentOffer(
            lambda: offer.offer(services.found_plugins, services.router.specs(), services.in_force.home)
        )
        files = SharedFiles(self._roots, self._file_bytes, identity.name, windows=sys.platform == "win32")
        limits = services.in_force.following(call_limits)
        self._calls = Calls(services.router.call, self._offers, files.answer, limits, services.new_id)
        self._forwards = Forwards(
            services.in_force.home / FORWARDS_FILE,
            services.background_results,
            lambda: self._line,
            self._offers,
            self._frame_bytes,
            identity.name,
        )
        self._parts = SessionParts(
            self._calls,
            self._registration,
            self._texts,
            self._addresses,
            lambda: services.settings.socket_ping_seconds,
            first_texts_seconds,
            texts_seconds,
        )
        services.events.listen(self._forwards.hear, BackgroundResult)
        services.events.listen(self._reloaded, Reloaded)
        services.router.changed(self._renew)

    @property
    def connected(self) -> bool:
        """True while the node is introduced to the main server."""
        return self._line is not None

    async def run(self, leaving: asyncio.Event) -> None:
        """Serve the main server until ``leaving`` is set; then running calls may end within the grace of a stop.

        A connection that cannot be made or breaks off is made again, without an end.
        """
        forwards = asyncio.create_task(self._forwards.run(), name="forwards")
        left = asyncio.create_task(leaving.wait(), name="leaving")
        try:
            while not leaving.is_set():
                serving = asyncio.create_task(self._serve_once(), name="main server")
                await asyncio.wait((serving, left), return_when=asyncio.FIRST_COMPLETED)
                if leaving.is_set():
                    await self._leave(serving)
                    break
                trouble = serving.result()
                held = self._timer() - self._opened if self._opened is not None else 0.0
                pause = self._pauses.after(held, refused=trouble.refused)
                self._say(str(trouble))
                log.warning("%s; next try in %.0f s", trouble.english, pause)
                await self._rest(left, pause)
        finally:
            for task in (forwards, left):
                task.cancel()
            await asyncio.wait((forwards, left))
            if not forwards.cancelled() and (fault := forwards.exception()) is not None:
                log.error("sending results to the main server failed", exc_info=fault)

    async def _serve_once(self) -> Trouble:
        """Connect and serve until that ends; the answer says why."""
        identity = self._identity
        self._opened = None
        try:
            self._tried = key = identity.key()
            address, headers = identity.main.connection(key)
            line = await open_line(
                address,
                headers,
                tls=identity.tls,
                proxy=proxy_for(identity.main, urllib.request.getproxies(), urllib.request.proxy_bypass),
                max_frame=self._frame_bytes(),
                max_queued=lambda: QUEUED_MESSAGES * self._frame_bytes(),
                agent=f"vcp-node/{__version__}",
            )
            self._opened = self._timer()
            try:
                self._session = Session(line, self._parts, lambda: self._joined(line))
                await self._session.serve()
            finally:
                self._line = self._session = None
        except (OSError, WebSocketException) as error:  # a TimeoutError is an OSError
            return trouble_of(error, identity.main)
        except Exception:  # the boundary to another program: whatever it provokes in here must not end the node
            log.exception("serving the main server failed")
            return Trouble("处理主服务器消息时出错，详见日志", "serving the main server failed, see the log")
        raise AssertionError("a session ends with the end of its line")

    def _joined(self, line: Line) -> None:
        self._line = line
        self._forwards.wake()
        tools = len(self.offer().manifests)
        main = self._identity.main.shown
        log.info("connected to the main server %s as %s with %d tools", main, self._identity.name, tools)
        self._say(both(f"已连接 {main}，提供 {tools} 个工具", f"connected to {main}, offering {tools} tools"))

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._tell(text)

    async def _rest(self, left: asyncio.Task[bool], seconds: float) -> None:
        self._try_now.clear()
        if self._identity.key() != self._tried:  # it changed while the last one was tried
            return
        sooner = asyncio.create_task(self._try_now.wait())
        await asyncio.wait((left, sooner), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        sooner.cancel()

    async def _leave(self, serving: asyncio.Task[Trouble]) -> None:
        """End: no new calls, those that run have the grace, then the line is closed."""
        self._calls.close()
        if self._line is not None:
            await self._services.stopping.wait(self._calls.tasks)
        await self._calls.stop(END_SECONDS)
        if (line := self._line) is not None:
            await line.close()
        serving.cancel()
        await asyncio.wait((serving,))

    # --- what the parts ask -------------------------------------------------------------------------------------------

    def _offers(self, tool: str) -> bool:
        names = self.offer().names
        if tool in names:
            return True
        if "#" in tool:  # the main server has no say in other nodes, should this home be a main server to some
            return False
        spec = self._services.router.find_spec(tool)
        return spec is not None and spec.name in names

    def _renew(self) -> None:
        self.offer.renew()
        if self._session is not None:
            self._session.changed()

    def _reloaded(self, event: Event) -> None:
        del event
        self._renew()
        if self._tried and self._identity.key() != self._tried:
            self._try_now.set()

    def _registration(self) -> bytes:
        labels = tuple(dict.fromkeys((*self._identity.labels, *self._services.settings.node_labels)))
        return offer.registration(self._identity.name, self.offer(), labels, self._frame_bytes())

    def _texts(self) -> bytes | None:
        texts = self._services.statics.texts(self.offer().statics)
        gone = [key for key in self._told_texts if key not in texts]
        self._told_texts.update(dict.fromkeys(texts))
        for key in gone[:-GONE_TEXTS]:
            del self._told_texts[key]
        if not texts and not gone:
            return None
        return offer.placeholders(
            self._identity.name, {**texts, **dict.fromkeys(gone[-GONE_TEXTS:])}, self._frame_bytes()
        )

    async def _addresses(self, own: str) -> bytes:
        local = await asyncio.to_thread(local_addresses, (own,))
        return offer.addresses(self._identity.name, local)

    def _roots(self) -> Sequence[Path]:
        home = self._services.in_force.home
        return (
            *self._identity.roots,
            *(home / Path(root).expanduser() for root in self._services.settings.node_file_roots),
        )

    def _frame_bytes(self) -> int:
        return self._services.settings.node_max_frame_mb * MEBIBYTE

    def _file_bytes(self) -> int:
        """Bytes of a file whose base64 and the rest fit into one message."""
        return (self._frame_bytes() - 64 * 1024) // 4 * 3


def call_limits(settings: Settings) -> CallLimits:
    """What the main server may ask for at a time, under these settings."""
    frame_bytes = settings.node_max_frame_mb * MEBIBYTE
    return CallLimits(
        calls=settings.plugin_max_running + settings.plugin_queue_limit,
        bytes=QUEUED_MESSAGES * frame_bytes,
        message_bytes=frame_bytes,
        password=settings.vcp_tool_code,
    )
