"""Requests to model APIs: headers, the choice of upstreams, lists of models (spec 1.4, 1.5, 4.10)."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace

from app import __version__
from app.errors import UpstreamError, UpstreamStatusError, UpstreamTimeoutError, both
from app.extend import Clock, Json, UpstreamResolver, UpstreamTarget
from app.protocol.call_depth import CALL_DEPTH_HEADER
from app.upstream.dispatch import Dispatch, Sending
from app.upstream.fleet import Fleet, UpstreamStatus
from app.upstream.limits import LIST_BYTES, LIST_SECONDS, UpstreamLimits
from app.upstream.model_list import merged
from app.upstream.plainer import Plainer
from app.upstream.proxies import EnvironmentProxies
from app.upstream.reply import EVENT_STREAM, HOP_BY_HOP, Reply
from app.upstream.retry import Fault, RetryPolicy
from app.upstream.urls import CHAT_PATH, MODELS_PATH, host_of
from app.upstream.wire import StreamedBody, Wire

USER_AGENT = f"vcp-server/{__version__}"
JSON = "application/json"

# Ours to say; a client's own value must not reach the upstream.
_NOT_FROM_CLIENT = HOP_BY_HOP | {
    "authorization",
    "host",
    "cookie",
    "accept-encoding",
    "expect",
    CALL_DEPTH_HEADER.lower(),
}

_log = logging.getLogger(__name__)


class UpstreamClient:
    """The one way to model APIs. A ``Lifecycle``; safe for any number of requests at once.

    ``environment`` is where the usual proxy variables are looked up, ``tls`` replaces the system's list of trusted
    certificates, ``sleep`` and ``clock`` (seconds since the epoch) are those of the retries, ``timer`` (seconds of any
    steady clock) and ``chance`` (0 to 1) those of an upstream's pauses.
    """

    def __init__(
        self,
        resolver: UpstreamResolver,
        policy: RetryPolicy,
        limits: UpstreamLimits,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Clock = time.time,
        timer: Clock = time.monotonic,
        chance: Callable[[], float] = random.random,
        environment: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolver = resolver
        self._dispatch = Dispatch(
            wire=Wire(tls),
            fleet=Fleet(),
            policy=policy,
            limits=limits,
            proxies=EnvironmentProxies.read(os.environ if environment is None else environment),
            sleep=sleep,
            clock=clock,
            timer=timer,
            chance=chance,
        )

    def renewed(
        self,
        resolver: UpstreamResolver,
        policy: RetryPolicy,
        limits: UpstreamLimits,
        *,
        environment: Mapping[str, str],
    ) -> UpstreamClient:
        """A client with other settings over the same connections, pauses and places; they start and stop together.

        Whoever holds this one, a turn for instance, goes on with the settings it began with.
        """
        other = copy(self)
        other._resolver = resolver
        other._dispatch = replace(
            self._dispatch, policy=policy, limits=limits, proxies=EnvironmentProxies.read(environment)
        )
        return other

    async def start(self) -> None:
        """Begin; the event loop must be running."""
        await self._dispatch.wire.start()

    def health(self) -> str:
        """Nothing: a model API in trouble does not make the server unwell; ``status`` tells of it."""
        return ""

    async def stop(self) -> None:
        """Close every connection."""
        await self._dispatch.wire.stop()

    def status(self) -> Sequence[UpstreamStatus]:
        """How each upstream fares, in order."""
        now = self._dispatch.timer()
        return [self._dispatch.fleet.status(target, now) for target in self._resolver.targets()]

    @property
    def has_several(self) -> bool:
        """Whether more than one upstream is configured."""
        return len(self._resolver.targets()) > 1

    async def chat(
        self,
        body: bytes,
        *,
        model: str,
        stream: bool,
        user_agent: str | None = None,
        accept: str | None = None,
        depth: int = 0,
        without_tools: Callable[[], bytes] | None = None,
    ) -> Reply:
        """Send a chat request; the reply has status 200 and its first piece of body (spec 1.4, 4.10).

        ``body`` is JSON and is sent byte for byte (D34). Repeated by the policy, and sent to the other upstreams for
        the model, until the first byte of an answer. ``depth`` is that of the chat. ``without_tools`` makes the body
        for an upstream that knows no function calls: one that refuses the tools of ``body`` gets that, and, once it has
        answered, at once for a while. Raises ``UpstreamStatusError`` for every other status, ``UpstreamConnectError``,
        ``UpstreamTimeoutError``, ``UpstreamBrokenError``, ``UpstreamBusyError``, and what the resolver raises.
        Cancelling closes the connection at once (D27).
        """
        headers = {
            "Content-Type": JSON,
            "User-Agent": user_agent or USER_AGENT,
            "Accept": EVENT_STREAM if stream else accept or JSON,
        }
        if stream:
            headers["Accept-Encoding"] = "identity"  # a compressor between us holds tokens back
        plainer = None if without_tools is None else Plainer(model, without_tools)
        sending = Sending("POST", CHAT_PATH, headers, body, depth, plainer=plainer)
        return await self._dispatch.ask(self._resolver.resolve(model), sending)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | StreamedBody | None = None,
        headers: Mapping[str, str],
        model: str = "",
        depth: int = 0,
    ) -> Reply:
        """Pass a request through; ``path`` begins with ``/v1/``, ``model`` chooses the upstreams.

        Every status is returned, redirects too; with several upstreams for the model that of the first one that has
        any, when all fail. The key, ``User-Agent`` and ``Accept`` are added where missing; a client's own
        authorization, cookies and hop-by-hop headers are left out. Faults before the first byte are repeated and raised
        as in ``chat``; a streamed body that was begun is sent to nobody else.
        """
        sent = {name: value for name, value in headers.items() if name.lower() not in _NOT_FROM_CLIENT}
        present = {name.lower() for name in sent}
        for name, value in (("User-Agent", USER_AGENT), ("Accept", JSON), *((("Content-Type", JSON),) if body else ())):
            if name.lower() not in present:
                sent[name] = value
        if isinstance(body, StreamedBody) and body.length is not None:
            sent["Content-Length"] = str(body.length)
        return await self._dispatch.ask(
            self._resolver.resolve(model), Sending(method, path, sent, body, depth, any_status=True)
        )

    async def models(self, *, user_agent: str | None = None, accept: str | None = None, depth: int = 0) -> Reply:
        """The upstream's list of models, whatever it looks like (spec 1.5, P32)."""
        headers = {"User-Agent": user_agent or USER_AGENT, "Accept": accept or JSON}
        return await self.request("GET", MODELS_PATH, headers=headers, depth=depth)

    async def merged_models(self, *, user_agent: str | None = None, depth: int = 0) -> list[Mapping[str, Json]]:
        """The models of all upstreams in order, each id once.

        All are asked at the same time, each once; one that fails is logged and loses only its own models. When all
        fail, raises the error of the first.
        """
        targets = self._resolver.targets()
        headers = {"User-Agent": user_agent or USER_AGENT, "Accept": JSON}
        sending = Sending("GET", MODELS_PATH, headers, None, depth)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._list_of(target, sending)) for target in targets]
        outcomes = [task.result() for task in tasks]
        if all(isinstance(outcome, UpstreamError) for outcome in outcomes):
            raise next(outcome for outcome in outcomes if isinstance(outcome, UpstreamError))
        lists = [(target, found) for target, found in zip(targets, outcomes, strict=True) if isinstance(found, bytes)]
        return merged(lists, self._resolver.resolve)

    async def _list_of(self, target: UpstreamTarget, sending: Sending) -> bytes | UpstreamError:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                return await self._read_list(target, sending)
        except TimeoutError:
            host = host_of(target.base_url)
            text = both(
                f"{host} 在 {LIST_SECONDS:g} 秒内没有给出模型列表",
                f"{host} gave no list of models within {LIST_SECONDS:g} s",
            )
            error: UpstreamError = UpstreamTimeoutError(text, phase="first_byte")
        except UpstreamError as fault:
            error = fault
        what = f"status {error.upstream_status}" if isinstance(error, UpstreamStatusError) else error.message
        _log.warning("the list of models lacks those of upstream %s: %s", target.name or "API_URL", what)
        return error

    async def _read_list(self, target: UpstreamTarget, sending: Sending) -> bytes:
        outcome = await self._dispatch.send(target, sending)
        if isinstance(outcome, Fault) and outcome.stale:
            outcome = await self._dispatch.send(target, sending)
        if isinstance(outcome, Fault):
            raise outcome.error
        if outcome.status != 200:
            raise await self._dispatch.status_error(outcome, target, 1)
        async with outcome:
            return await outcome.read_all(LIST_BYTES)
