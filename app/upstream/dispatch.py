"""One request, sent until an upstream answers: attempts, pauses, places, the next upstream (spec 4.10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from app.errors import UpstreamBusyError, UpstreamError, UpstreamStatusError, UpstreamTimeoutError, both
from app.extend import Clock, UpstreamTarget
from app.protocol.call_depth import CALL_DEPTH_HEADER
from app.protocol.secret_texts import MASK
from app.upstream.failover import Candidate, FailOver, fails_over, is_unwell
from app.upstream.fleet import Fleet
from app.upstream.limits import ERROR_BODY_BYTES, ERROR_BODY_SECONDS, UpstreamLimits
from app.upstream.plainer import Plainer, refuses_tools
from app.upstream.proxies import EnvironmentProxies
from app.upstream.reply import Reply
from app.upstream.retry import Fault, RetryPolicy, parse_retry_after
from app.upstream.urls import host_of, redirected
from app.upstream.wire import StreamedBody, Wire

_SHORTEST_SECRET = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sending:
    """What is sent: ``path`` begins with ``/v1/``. ``depth`` is told to an upstream that is this server itself.

    With ``any_status`` every answer is one; else only status 200 is, and the others are errors that may be repeated.
    With ``plainer`` an upstream that refuses the tools of ``body`` is sent that one.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | StreamedBody | None
    depth: int = 0
    any_status: bool = False
    plainer: Plainer | None = None

    @property
    def spent(self) -> bool:
        """True when the body was streamed and a part of it is gone: then there is no other attempt."""
        return isinstance(self.body, StreamedBody) and self.body.begun


@dataclass(frozen=True, slots=True)
class Dispatch:
    """How requests are sent, by the settings of one configuration; ``wire`` and ``fleet`` outlive them.

    ``clock`` gives seconds since the epoch, ``timer`` seconds of any steady clock, ``chance`` numbers from 0 to 1.
    """

    wire: Wire
    fleet: Fleet
    policy: RetryPolicy
    limits: UpstreamLimits
    proxies: EnvironmentProxies
    sleep: Callable[[float], Awaitable[None]]
    clock: Clock
    timer: Clock
    chance: Callable[[], float]

    async def ask(self, targets: Sequence[UpstreamTarget], sending: Sending) -> Reply:
        """The reply of the first target that answers; it keeps its place there until it is closed.

        When all fail: the first reply with any status, where that is wanted, else the error of the target that was
        asked first. One that finds fault with the request itself ends the search at once.
        """
        plan = FailOver([Candidate(target, self.fleet.standing(target)) for target in targets])
        kept: Reply | None = None
        try:
            while not plan.over:
                able = plan.next(self.timer())
                if not able:
                    await self.sleep(plan.pause())
                    continue
                candidate = _placed_at_once(able) or await self._placed(plan, able)
                if candidate is None:
                    continue
                outcome = await self._attempt(candidate, self._fitting(candidate, sending))
                if self._was_refused_for_tools(candidate, sending, outcome):
                    continue
                if isinstance(outcome, Fault) and outcome.stale and candidate.spare and not sending.spent:
                    candidate.spare = False  # once only: one that always hangs up must not be asked for ever
                    candidate.end_trial()
                    continue
                candidate.attempts += 1
                if not isinstance(outcome, Reply):
                    self._failed(plan, candidate, outcome, last=sending.spent)
                elif outcome.status == 200 or not fails_over(outcome.status) or sending.spent:
                    return outcome
                else:
                    plan.drop(candidate)
                    self._log_failed(plan, candidate, f"status {outcome.status}", None)
                    if kept is None:
                        kept = outcome
                    else:
                        await outcome.close()
            if kept is None:
                raise plan.error()
            reply, kept = kept, None
            return reply
        finally:
            if kept is not None:
                await kept.close()

    def _fitting(self, candidate: Candidate, sending: Sending) -> Sending:
        """The request as this upstream takes it."""
        plainer = sending.plainer
        if plainer is None:
            return sending
        candidate.plainer = candidate.plainer or candidate.standing.without_tools.has(plainer.model, self.timer())
        return replace(sending, body=plainer.body()) if candidate.plainer else sending

    def _was_refused_for_tools(
        self, candidate: Candidate, sending: Sending, outcome: Reply | Fault | UpstreamStatusError
    ) -> bool:
        """True when the upstream is to be asked once more, without tools; what it takes is remembered when it answers.

        The refusal says nothing of its health and is no attempt.
        """
        plainer, standing = sending.plainer, candidate.standing
        if plainer is None or isinstance(outcome, Fault):
            return False
        if isinstance(outcome, Reply):
            if candidate.refused_tools:
                standing.without_tools.add(plainer.model, self.timer())
                _log.warning(
                    "upstream %s takes no tools for model %.100r (status %d); it is asked without for an hour",
                    candidate.target.name or "API_URL",
                    plainer.model,
                    candidate.refused_tools,
                )
            return False
        if candidate.plainer or not refuses_tools(outcome.upstream_status, outcome.body):
            return False
        candidate.plainer, candidate.refused_tools = True, outcome.upstream_status
        candidate.end_trial()
        return True

    async def _placed(self, plan: FailOver, able: Sequence[Candidate]) -> Candidate | None:
        """The candidate of these at which a place came free and was taken; None when the wait was in vain."""
        place = await self.fleet.wait([candidate.standing for candidate in able], self.limits.queue)
        for candidate in tuple(able):
            if place is None:
                plan.failed(candidate, _busy(self.limits.queue), None)
            elif place is candidate.standing:
                return candidate
        return None

    async def _attempt(self, candidate: Candidate, sending: Sending) -> Reply | Fault | UpstreamStatusError:
        """One attempt; the place goes with a good reply and is given back with everything else."""
        standing = candidate.standing
        candidate.begin(self.timer())
        try:
            outcome: Reply | Fault | UpstreamStatusError = await self.send(candidate.target, sending)
            if isinstance(outcome, Reply):
                outcome.upstream = candidate.target.name or "API_URL"
                if outcome.status == 200:
                    candidate.succeeded()
                    outcome.hold(standing)
                    return outcome
                if sending.any_status:
                    wanted = parse_retry_after(outcome.headers.get("Retry-After"), self.clock())
                    self._rate(candidate, outcome.status, wanted)
                    if outcome.status < 300:
                        outcome.hold(standing)
                        return outcome
                    # It is read to its end here: a place kept for it while the next one is asked would let requests
                    # wait for each other's.
                    outcome.put_back(_without_key(await _read_error_body(outcome), candidate.target))
                else:
                    outcome = await self.status_error(outcome, candidate.target, candidate.attempts + 1)
        except BaseException:
            candidate.end_trial()
            standing.release()
            raise
        standing.release()
        return outcome

    async def send(self, target: UpstreamTarget, sending: Sending) -> Reply | Fault:
        """Send it once to this target; a reply may have any status."""
        url = target.base_url + sending.path
        headers = sending.headers
        if target.api_key:
            headers = {**headers, "Authorization": f"Bearer {target.api_key}"}
        if target.ourselves:
            headers = {**headers, CALL_DEPTH_HEADER: str(sending.depth + 1)}
        try:
            proxy = self.proxies.proxy_for(url) if target.proxy is None else target.proxy
        except UpstreamError as error:
            return Fault(error, retried=False)
        return await self.wire.open(
            sending.method,
            url,
            headers=headers,
            body=sending.body,
            proxy=proxy or None,
            limits=self.limits,
            target=target,
        )

    async def status_error(self, reply: Reply, target: UpstreamTarget, attempts: int) -> UpstreamStatusError:
        """The error of an answer with another status than 200; the reply is read and closed."""
        body = await _read_error_body(reply)
        content_type = reply.content_type
        if 300 <= reply.status < 400:
            text = redirected(reply.headers.get("Location", ""), target.setting("URL"))
            body = orjson.dumps({"error": {"message": text, "type": "upstream_error", "code": "upstream_redirect"}})
            content_type = "application/json"
        else:
            body = _without_key(body, target)
        return UpstreamStatusError(
            reply.status,
            body,
            content_type=content_type,
            attempts=attempts,
            retry_after=parse_retry_after(reply.headers.get("Retry-After"), self.clock()),
        )

    def _failed(
        self, plan: FailOver, candidate: Candidate, outcome: Fault | UpstreamStatusError, *, last: bool
    ) -> None:
        """Note a failed attempt for this request and for the upstream's health; raise the error if it is the last."""
        error: UpstreamError
        if isinstance(outcome, Fault):
            error, what = outcome.error, outcome.error.message
            grave = isinstance(error, UpstreamTimeoutError)
            candidate.failed(self.timer(), self.policy.pause, self.chance(), grave=grave)
            decision = self.policy.after_fault(candidate.attempts, outcome)
            if decision.wait is None or last:
                _count(error, candidate.attempts)
        else:
            error, status, what = outcome, outcome.upstream_status, f"status {outcome.upstream_status}"
            self._rate(candidate, status, outcome.retry_after)
            decision = self.policy.after_status(candidate.attempts, status, outcome.retry_after)
            outcome.exhausted = decision.exhausted
            last = last or not fails_over(status)
        if last:
            raise error
        plan.failed(candidate, error, decision.wait)
        self._log_failed(plan, candidate, what, decision.wait)

    def _rate(self, candidate: Candidate, status: int, wanted: float | None) -> None:
        """What a status says of the upstream's health; ``wanted`` are the seconds of its ``Retry-After``."""
        if is_unwell(status):
            candidate.failed(self.timer(), self.policy.pause, self.chance(), wanted=wanted)
        else:
            candidate.succeeded()

    def _log_failed(self, plan: FailOver, candidate: Candidate, what: str, wait: float | None) -> None:
        if plan.over:
            return  # who asked tells of it
        place = host_of(candidate.target.base_url)
        if plan.several:
            place, follows = f"{candidate.target.name or 'API_URL'} ({place})", "others are asked"
        else:
            follows = f"next in {wait:g} s"
        _log.warning(
            "upstream %s, attempt %d of %d: %s; %s", place, candidate.attempts, self.policy.attempts, what, follows
        )


def _placed_at_once(able: Sequence[Candidate]) -> Candidate | None:
    """The first candidate that has room, with a place taken there."""
    for candidate in able:
        if candidate.standing.has_room:
            candidate.standing.take()
            return candidate
    return None


def _without_key(body: bytes, target: UpstreamTarget) -> bytes:
    """An error's body without our key: some gateways quote the one they refuse."""
    return body.replace(target.api_key.encode(), MASK.encode()) if len(target.api_key) >= _SHORTEST_SECRET else body


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


def _busy(seconds: float) -> UpstreamBusyError:
    return UpstreamBusyError(
        both(
            f"上游的并发请求已满，{seconds:g} 秒内没有空位（ApiMaxRunning、Upstream_…_MaxRunning）",
            f"the upstream has as many requests as it may (ApiMaxRunning, Upstream_…_MaxRunning), "
            f"and none ended within {seconds:g} s",
        )
    )


def _count(error: UpstreamError, attempts: int) -> None:
    if attempts > 1:
        error.message = f"{error.message} ({both(f'共尝试 {attempts} 次', f'{attempts} attempts')})"
        error.args = (error.message,)
