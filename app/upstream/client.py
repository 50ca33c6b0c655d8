"""Requests to model APIs: headers, proxy, retries, errors (spec 1.4, 1.5, 4.10)."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping

import orjson

from app import __version__
from app.errors import UpstreamError, UpstreamStatusError, both
from app.extend import Clock, UpstreamResolver, UpstreamTarget
from app.upstream.limits import ERROR_BODY_BYTES, ERROR_BODY_SECONDS, UpstreamLimits
from app.upstream.proxies import EnvironmentProxies
from app.upstream.reply import EVENT_STREAM, HOP_BY_HOP, Reply
from app.upstream.retry import Fault, RetryPolicy, parse_retry_after
from app.upstream.urls import CHAT_PATH, MODELS_PATH, host_of, redirected
from app.upstream.wire import StreamedBody, Wire

USER_AGENT = f"vcp-server/{__version__}"
JSON = "application/json"

# Ours to say; a client's own value must not reach the upstream.
_NOT_FROM_CLIENT = HOP_BY_HOP | {"authorization", "host", "cookie", "accept-encoding", "expect"}

_log = logging.getLogger(__name__)


class UpstreamClient:
    """The one way to model APIs. A ``Lifecycle``; safe for any number of requests at once.

    ``environment`` is where the usual proxy variables are looked up, ``tls`` replaces the system's list of trusted
    certificates, ``sleep`` and ``clock`` (seconds since the epoch) are those of the retries.
    """

    def __init__(
        self,
        resolver: UpstreamResolver,
        policy: RetryPolicy,
        limits: UpstreamLimits,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Clock = time.time,
        environment: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolver = resolver
        self._policy = policy
        self._sleep = sleep
        self._clock = clock
        self._proxies = EnvironmentProxies.read(os.environ if environment is None else environment)
        self._wire = Wire(limits, tls)

    async def start(self) -> None:
        """Begin; the event loop must be running."""
        await self._wire.start()

    async def stop(self) -> None:
        """Close every connection."""
        await self._wire.stop()

    async def chat(
        self, body: bytes, *, model: str, stream: bool, user_agent: str | None = None, accept: str | None = None
    ) -> Reply:
        """Send a chat request; the reply has status 200 and its first piece of body (spec 1.4, 4.10).

        ``body`` is JSON and is sent byte for byte (D34). Repeated by the policy until the first byte of an answer.
        Raises ``UpstreamStatusError`` for every other status, ``UpstreamConnectError``, ``UpstreamTimeoutError`` or
        ``UpstreamBrokenError``. Cancelling closes the connection at once (D27).
        """
        headers = {
            "Content-Type": JSON,
            "User-Agent": user_agent or USER_AGENT,
            "Accept": EVENT_STREAM if stream else accept or JSON,
        }
        if stream:
            headers["Accept-Encoding"] = "identity"  # a compressor between us holds tokens back
        target = self._resolver.resolve(model)
        attempt = 1
        while True:
            reply, attempt = await self._open(target, "POST", CHAT_PATH, headers, body, attempt)
            if reply.status == 200:
                return reply
            error = await self._status_error(reply, target, attempt)
            decision = self._policy.after_status(attempt, error.upstream_status, error.retry_after)
            if decision.wait is None:
                error.exhausted = decision.exhausted
                raise error
            _log_retry(target, f"status {error.upstream_status}", attempt, self._policy.attempts, decision.wait)
            await self._sleep(decision.wait)
            attempt += 1

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | StreamedBody | None = None,
        headers: Mapping[str, str],
        model: str = "",
    ) -> Reply:
        """Pass a request through; ``path`` begins with ``/v1/``, ``model`` chooses the target.

        Every status is returned, redirects too. The key, ``User-Agent`` and ``Accept`` are added where missing; a
        client's own authorization, cookies and hop-by-hop headers are left out. Faults before the first byte are
        repeated and raised as in ``chat``; a streamed body that was begun is not sent again.
        """
        sent = {name: value for name, value in headers.items() if name.lower() not in _NOT_FROM_CLIENT}
        present = {name.lower() for name in sent}
        for name, value in (("User-Agent", USER_AGENT), ("Accept", JSON), *((("Content-Type", JSON),) if body else ())):
            if name.lower() not in present:
                sent[name] = value
        if isinstance(body, StreamedBody) and body.length is not None:
            sent["Content-Length"] = str(body.length)
        reply, _ = await self._open(self._resolver.resolve(model), method, path, sent, body, 1)
        return reply

    async def models(self, *, user_agent: str | None = None, accept: str | None = None) -> Reply:
        """The upstream's list of models, whatever it looks like (spec 1.5, P32)."""
        return await self.request(
            "GET", MODELS_PATH, headers={"User-Agent": user_agent or USER_AGENT, "Accept": accept or JSON}
        )

    async def _open(
        self,
        target: UpstreamTarget,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | StreamedBody | None,
        attempt: int,
    ) -> tuple[Reply, int]:
        """A reply with any status, and the number of the attempt that brought it."""
        url = target.base_url + path
        proxy = target.proxy or self._proxies.proxy_for(url)
        if target.api_key:
            headers = {**headers, "Authorization": f"Bearer {target.api_key}"}
        spare = True
        while True:
            outcome = await self._wire.open(method, url, headers=headers, body=body, proxy=proxy)
            if isinstance(outcome, Reply):
                return outcome, attempt
            if isinstance(body, StreamedBody) and body.begun:
                raise _counted(outcome, attempt)
            if outcome.stale and spare:
                spare = False  # once only: an upstream that always hangs up must not be asked for ever
                continue
            decision = self._policy.after_fault(attempt, outcome)
            if decision.wait is None:
                raise _counted(outcome, attempt)
            _log_retry(target, outcome.error.message, attempt, self._policy.attempts, decision.wait)
            await self._sleep(decision.wait)
            attempt += 1

    async def _status_error(self, reply: Reply, target: UpstreamTarget, attempt: int) -> UpstreamStatusError:
        body = await _read_error_body(reply)
        content_type = reply.content_type
        if 300 <= reply.status < 400:
            text = redirected(reply.headers.get("Location", ""))
            body = orjson.dumps({"error": {"message": text, "type": "upstream_error", "code": "upstream_redirect"}})
            content_type = JSON
        elif len(target.api_key) >= _SHORTEST_SECRET:
            body = body.replace(target.api_key.encode(), b"***")  # some gateways quote the key they refuse
        return UpstreamStatusError(
            reply.status,
            body,
            content_type=content_type,
            attempts=attempt,
            retry_after=parse_retry_after(reply.headers.get("Retry-After"), self._clock()),
        )


_SHORTEST_SECRET = 8


async def _read_error_body(reply: Reply) -> bytes:
    """As much of the body as comes; the status alone is worth reporting."""
    blocks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while size < ERROR_BODY_BYTES and (block := await reply.read_some()):
                blocks.append(block)
                size += len(block)
    except (TimeoutError, UpstreamError) as error:
        _log.debug("the body of an error answer is incomplete: %s", error)
    finally:
        await reply.close()
    return b"".join(blocks)[:ERROR_BODY_BYTES]


def _counted(fault: Fault, attempts: int) -> UpstreamError:
    error = fault.error
    if attempts > 1:
        error.message = f"{error.message} ({both(f'共尝试 {attempts} 次', f'{attempts} attempts')})"
        error.args = (error.message,)
    return error


def _log_retry(target: UpstreamTarget, what: str, attempt: int, attempts: int, wait: float) -> None:
    _log.warning(
        "upstream %s, attempt %d of %d: %s; next in %g s", host_of(target.base_url), attempt, attempts, what, wait
    )
