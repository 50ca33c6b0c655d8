"""One turn: rounds of upstream answer and tool calls until none is left. The same loop for both renderings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from typing import Any, Literal

from app.chat.background import BackgroundTasks
from app.chat.calls import CallRules, RoundCalls
from app.chat.diary_blocks import write_diaries
from app.chat.payload import dumps
from app.chat.prepare import Preparation
from app.chat.render import Ending, Renderer
from app.chat.round import RoundAnswer
from app.chat.running import RunningTurn, StopReason
from app.chat.usage import add_usage
from app.errors import ShutdownError, VcpError
from app.extend import (
    Body,
    CallContext,
    CallFormat,
    CallTool,
    Clock,
    Door,
    Dump,
    EventSink,
    FirstToken,
    Outcome,
    RoundFinished,
    RoundStarted,
    ToolSpec,
    TurnFinished,
    TurnStarted,
    UpstreamAnswered,
    no_dump,
)
from app.protocol import dump_names, markers
from app.protocol.diary import find_diary_blocks
from app.protocol.timestamps import iso_millis
from app.tools.rendering import ResultFormat, show_vcp_block, without_secrets
from app.upstream.client import UpstreamClient

log = logging.getLogger(__name__)

NativeMode = Literal["off", "auto", "on"]
"""Whether our tools are offered as functions of the chat API."""

FAREWELL_SECONDS = 5.0
"""How long the last words of a stopped turn may wait for a client that does not read."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a client asked for. ``show_vcp`` puts tool results into the reply; ``depth`` counts chats within tools.

    ``parent_turn_id`` is the turn that an inner chat belongs to, empty for a client's.
    """

    id: str
    body: Body
    model: str
    stream: bool
    show_vcp: bool = False
    client_ip: str | None = None
    user_agent: str | None = None
    accept: str | None = None
    depth: int = 0
    parent_turn_id: str = ""

    @property
    def wants_usage(self) -> bool:
        """True when the client asked for token usage in a stream (plain answers carry it anyway)."""
        options = self.body.get("stream_options")
        return isinstance(options, Mapping) and options.get("include_usage") is True


@dataclass(frozen=True, slots=True)
class TurnRules:
    """Settings that hold for the whole turn; with ``native="auto"`` an upstream may refuse to know of functions.

    ``diaries`` stores the diary blocks of replies.
    """

    max_tool_rounds: int = 5
    max_calls: int = 256
    eager: bool = True
    password_wanted: bool = False
    keep_tools_on_disconnect: bool = False
    results: ResultFormat = field(default_factory=ResultFormat)
    native: NativeMode = "off"
    diaries: bool = True


def _nothing_follows(_context: CallContext) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class TurnParts:
    """What a turn works with; one object for the whole server.

    ``standing`` is entered for the whole turn, so that what follows from it anywhere is known to stand in it.
    """

    upstream: UpstreamClient
    preparation: Preparation
    call_tool: CallTool
    find_spec: Callable[[str], ToolSpec | None]
    events: EventSink
    background: BackgroundTasks
    clock: Clock
    zone: tzinfo
    new_id: Callable[[], str]
    call_format: Callable[[TurnRules], CallFormat]
    dump: Dump = no_dump
    standing: Callable[[CallContext], AbstractContextManager[None]] = _nothing_follows


class Turn:
    """Runs one request to its end, or until its handle is stopped (D27)."""

    def __init__(
        self, request: TurnRequest, rules: TurnRules, parts: TurnParts, renderer: Renderer, handle: RunningTurn
    ) -> None:
        self._request = request
        self._rules = rules
        self._parts = parts
        self._renderer = renderer
        self._handle = handle
        self._calls: RoundCalls | None = None
        self._round = 0
        self._calls_before = 0  # of rounds before the present one
        self._context = CallContext(
            turn_id=request.id,
            door=Door.STREAM if request.stream else Door.NON_STREAM,
            client_ip=request.client_ip,
            depth=request.depth,
            mute=handle.mute,
        )

    async def run(self) -> None:
        """Run the turn; every fault of ours or of the upstream ends readably in the renderer."""
        request, handle, events = self._request, self._handle, self._parts.events
        events.publish(
            TurnStarted(
                request.id, request.model, request.stream, request.client_ip, request.depth, request.parent_turn_id
            )
        )
        outcome, said = Outcome.SUCCESS, ""
        try:
            handle.begin()
            try:
                with self._parts.standing(self._context):
                    await self._rounds()
            except VcpError as error:
                outcome, said = Outcome.ERROR, error.message
                await self._failed(error)
            except Exception as error:  # the turn's boundary: a fault of ours must not cut the client off
                log.exception("turn %s failed", request.id)
                outcome, said = Outcome.ERROR, f"{type(error).__name__}: {error}"
                await self._failed(VcpError(markers.FATAL_ERROR))
        except asyncio.CancelledError:  # also while an error was told
            if (task := asyncio.current_task()) is not None:
                task.uncancel()  # it ends here, and before Python 3.11.3 no time limit works in a cancelled task
            outcome, said = Outcome.CANCELLED, handle.reason or "cancelled"
            await self._stopped()
        finally:
            handle.end()
            try:
                await self._settle()
            finally:
                events.publish(
                    TurnFinished(
                        request.id, outcome, self._round, self._calls_found, said, request.model, request.client_ip
                    )
                )

    @property
    def _calls_found(self) -> int:
        return self._calls_before + (self._calls.found if self._calls is not None else 0)

    @property
    def _keeps_tools(self) -> bool:
        return self._handle.reason is StopReason.DISCONNECT and self._rules.keep_tools_on_disconnect

    async def _failed(self, error: VcpError) -> None:
        if self._calls is not None:
            self._calls.cancel()  # at once, however slowly the client reads (D24)
        await self._renderer.failed(error)

    async def _stopped(self) -> None:
        if self._calls is not None and not self._keeps_tools:
            self._calls.cancel()
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                if self._handle.reason is StopReason.INTERRUPT:
                    await self._renderer.interrupted()
                elif self._handle.reason is StopReason.SHUTDOWN:
                    await self._renderer.failed(ShutdownError())
        except TimeoutError:
            log.warning("turn %s was stopped; its client does not read the end of the answer", self._request.id)

    async def _settle(self) -> None:
        """End what still runs; nothing of the turn is left behind but archery calls and diary writes."""
        calls = self._calls
        if calls is None:
            return
        if self._keeps_tools:
            calls.release()
            return
        calls.cancel()
        await calls.settled()

    async def _rounds(self) -> None:
        request, parts, renderer = self._request, self._parts, self._renderer
        prepared = await parts.preparation.prepare(request.body, request.model, request.id)
        body = prepared.body
        usage: dict[str, Any] | None = None
        finish_reasons: dict[int, str] = {}
        said = False
        while True:
            self._round += 1
            over_limit = self._round > self._rules.max_tool_rounds
            body = await parts.preparation.before_round(body, request.model, request.id, self._round)
            call_format = parts.call_format(self._rules)
            self._calls_before = self._calls_found
            calls = self._calls = self._round_calls(call_format, run=not over_limit)
            answer = await self._ask(call_format.offer(body), body, calls)
            usage = add_usage(usage, answer.usage)
            finish_reasons = answer.finish_reasons if self._round == 1 else finish_reasons | answer.finish_reasons
            if 0 not in answer.finish_reasons:
                finish_reasons.pop(0, None)
            finish = answer.finish_reasons.get(0)
            parts.events.publish(RoundFinished(request.id, self._round, finish, answer.usage, answer.text))
            self._file_diaries(answer.text, call_format.hidden())
            calls.start_all()
            while (outcome := await calls.next_finished()) is not None:
                if request.show_vcp and not outcome.result.silent:
                    stamp = iso_millis(outcome.finished_at, parts.zone)
                    style = self._rules.results
                    shown = without_secrets(outcome) if style.private else outcome
                    await renderer.block(show_vcp_block(shown, stamp, style.profile))
            if answer.native_calls or over_limit or not calls.normal:
                break
            # Plain answers keep the newline before a later round's text in the history too (spec 4.8).
            text = "\n" + answer.text if said and not request.stream else answer.text
            said = said or bool(answer.text)
            told = [outcome for outcome in calls.outcomes() if not outcome.result.silent]
            if not told:  # the model hears nothing of its calls (spec 7.6), so there is nothing to ask it about
                break
            before = len(body["messages"])
            body = call_format.append(body, text, told)
            parts.dump(dump_names.results_for_model(stream=request.stream), body["messages"][before:])
        await renderer.finish(Ending(finish_reasons, usage, calls_left=calls.skipped > 0 and not answer.native_calls))

    def _round_calls(self, call_format: CallFormat, *, run: bool) -> RoundCalls:
        parts, rules = self._parts, self._rules
        return RoundCalls(
            parts.call_tool,
            parts.find_spec,
            parts.events,
            parts.background,
            self._context,
            CallRules(run, rules.eager, rules.max_calls),
            call_format,
            parts.clock,
        )

    async def _ask(self, body: Body, body_before: Body, calls: RoundCalls) -> RoundAnswer:
        """Ask with ``body``; ``body_before`` is the same without what the format added to it."""
        request, parts = self._request, self._parts
        number = self._round
        parts.events.publish(RoundStarted(request.id, number))

        def first_token() -> None:
            parts.events.publish(FirstToken(request.id, number))

        added = body is not body_before
        may_refuse = partial(dumps, body_before) if added and self._rules.native == "auto" else None
        await asyncio.sleep(0)  # a stop that came with this very event is met before the upstream is asked
        reply = await parts.upstream.chat(
            dumps(body),
            model=request.model,
            stream=request.stream,
            user_agent=request.user_agent,
            accept=request.accept,
            depth=request.depth,
            without_tools=may_refuse,
        )
        parts.events.publish(UpstreamAnswered(request.id, number, reply.upstream))
        try:
            return await self._renderer.read(reply, calls, first_token)
        finally:
            await reply.close()

    def _file_diaries(self, text: str, hidden: Sequence[tuple[int, int]]) -> None:
        request, parts = self._request, self._parts
        blocks = find_diary_blocks(text, hidden) if self._rules.diaries else ()
        if not blocks:
            return
        context = replace(self._context, door=Door.DIARY_BLOCK)
        work = write_diaries(blocks, parts.new_id, context, parts.call_tool, parts.events)
        parts.background.start(work, f"diary blocks of {request.id}")
