"""A turn as server-sent events."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from app.chat.calls import RoundCalls
from app.chat.failures import error_answer, failure_headers, failure_text
from app.chat.payload import dumps
from app.chat.reading import AnswerState, RoundReader
from app.chat.render import DEFAULT_FINISH, Ending
from app.chat.round import RoundAnswer, passed_headers, read_stream
from app.errors import UpstreamStatusError, VcpError
from app.protocol import markers
from app.protocol.chat import DONE, chunk, sse
from app.upstream.reply import Reply

_ID_FINAL = markers.ID_FINAL_STOP.removesuffix("stop-")


class StreamRenderer:
    """Writes server-sent events. ``write`` takes whole events, so that heartbeats can come between any two of them, and
    whether they are the last ones; when it is cancelled it has written nothing.

    ``wants_usage``: the client asked for token usage; ``forward_usage``: each round's usage goes out as it comes (D1).
    With ``errors_as_status`` an error before the first event is left in ``status_answer`` for whoever owns the response
    (D13). ``headers`` are those of the response.
    """

    def __init__(
        self,
        write: Callable[[bytes, bool], Awaitable[None]],
        *,
        model: str,
        wants_usage: bool = False,
        forward_usage: bool = False,
        errors_as_status: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._model = model
        self._tell_usage = wants_usage and not forward_usage
        self._forward_usage = forward_usage
        self._errors_as_status = errors_as_status
        self._clock = clock
        self._answer = AnswerState()
        self._first_reasons: dict[int, str] = {}
        self._rounds = 0
        self._begun = False
        self._said = False
        self._ended = False
        self.headers: dict[str, str] = {}
        self.status_answer: tuple[int, dict[str, Any]] | None = None

    async def read(self, reply: Reply, calls: RoundCalls, first_token: Callable[[], None]) -> RoundAnswer:
        """Pass the answer on while it comes."""
        self._rounds += 1
        if self._rounds == 1:
            self.headers = passed_headers(reply)
        elif self._said:  # a round that had nothing but function calls of ours is nothing to the client
            await self._say(markers.ID_SEPARATOR, "\n")
        reader = RoundReader(
            self._answer,
            first_token,
            forward_usage=self._forward_usage,
            first_choice_only=self._rounds > 1,
            native=calls.native,
        )
        if self._rounds == 1:
            self._first_reasons = reader.finish_reasons
        try:
            return await read_stream(reply, calls, reader, self._forward)
        finally:
            self._said = self._said or reader.said

    async def block(self, text: str) -> None:
        """A ShowVCP block in a chunk of its own."""
        self._said = True
        await self._say(markers.ID_SHOW_VCP, text)

    async def failed(self, error: VcpError) -> None:
        """A readable chunk, a finish and the end mark, whatever the fault (B20)."""
        if self._ended:
            return
        if self._errors_as_status and not self._begun:
            self._ended = True
            self.headers = failure_headers(error)
            self.status_answer = error_answer(error)
            return
        status = isinstance(error, UpstreamStatusError) and not error.exhausted
        kind = markers.ID_UPSTREAM_ERROR if status else markers.ID_ERROR
        text = failure_text(error)
        await self._end_with(kind, "\n" + text if self._begun else text)

    async def interrupted(self) -> None:
        """A notice when nothing was sent yet (spec 1.7), else just a well-formed end (B21)."""
        if self._ended:
            return
        if self._begun:
            await self._send(*self._finishes({0: DEFAULT_FINISH}), end=True)
        else:
            await self._end_with(markers.ID_INTERRUPT, markers.INTERRUPTED)

    async def finish(self, ending: Ending) -> None:
        """One finish reason for each choice, the usage chunk if there is one, the end mark (D1, D25, D32)."""
        if self._ended:
            return
        reasons = {0: DEFAULT_FINISH} | dict(ending.finish_reasons)
        if ending.calls_left:
            reasons[0] = "length"
        out = self._finishes(reasons)
        if ending.usage is not None and self._tell_usage:
            tail = self._chunk(markers.ID_SHOW_VCP, {}, None)
            tail["choices"] = []
            tail["usage"] = dict(ending.usage)
            out.append(tail)
        await self._send(*out, end=True)

    async def _forward(self, events: bytes) -> None:
        await self._write(events, False)
        self._begun = True

    async def _say(self, kind: str, text: str) -> None:
        await self._send(self._chunk(kind, self._delta(text), None))

    async def _end_with(self, kind: str, text: str) -> None:
        said = self._chunk(kind, self._delta(text), None)
        await self._send(said, *self._finishes({0: DEFAULT_FINISH}, kind), end=True)

    def _finishes(self, reasons: Mapping[int, str], kind: str = "") -> list[dict[str, Any]]:
        """The finish of every choice that was begun; choices that ``reasons`` lacks end as their own round said."""
        known = self._first_reasons | dict(reasons)
        out = []
        for index in sorted({*known, *self._answer.roles_sent}):
            reason = known.get(index, DEFAULT_FINISH)
            delta: dict[str, Any] = {}
            if index not in self._answer.roles_sent:  # an answer without a word still is an assistant's
                self._answer.roles_sent.add(index)
                delta = {"role": "assistant", "content": ""}
            out.append(self._chunk(kind or f"{_ID_FINAL}{reason}-", delta, reason, index))
        return out

    def _delta(self, text: str) -> dict[str, Any]:
        # A role counts as sent when its event is read; that event may have been lost to a cancelled write.
        if self._begun and 0 in self._answer.roles_sent:
            return {"content": text}
        self._answer.roles_sent.add(0)
        return {"role": "assistant", "content": text}

    def _chunk(self, kind: str, delta: dict[str, Any], finish: str | None, index: int = 0) -> dict[str, Any]:
        now = self._clock()
        return chunk(
            f"{kind}{int(now * 1000)}",
            self._answer.model or self._model,
            self._answer.created or int(now),
            delta,
            finish,
            index,
        )

    async def _send(self, *chunks: dict[str, Any], end: bool = False) -> None:
        data = b"".join(sse(dumps(one)) for one in chunks)
        await self._write(data + DONE if end else data, end)
        self._begun = True
        self._ended = end
