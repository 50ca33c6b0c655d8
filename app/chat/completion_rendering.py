"""A turn as one completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.chat.calls import RoundCalls
from app.chat.failures import error_answer, failure_headers, failure_text
from app.chat.render import DEFAULT_FINISH, Ending
from app.chat.round import RoundAnswer, choices_of, first_message, passed_headers, read_plain
from app.errors import VcpError
from app.protocol import markers
from app.protocol.chat import text_of
from app.protocol.half_characters import whole
from app.upstream.reply import Reply


class CompletionRenderer:
    """Collects the texts of all rounds and makes one completion of them (spec 4.8).

    Afterwards ``status``, ``headers`` and ``body`` are those of the response; without a body there is nothing to say.
    """

    def __init__(self, *, model: str) -> None:
        self._model = model
        self._texts: list[str] = []
        self._first: dict[str, Any] | None = None
        self._last_message: Mapping[str, Any] = {}
        self._rounds = 0
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body: dict[str, Any] | None = None

    async def read(self, reply: Reply, calls: RoundCalls, first_token: Callable[[], None]) -> RoundAnswer:
        """Keep the first answer as the frame of ours, and every answer's text."""
        answer, completion = await read_plain(reply, calls, first_token)
        self._rounds += 1
        if self._rounds == 1:
            self.headers = passed_headers(reply)
            self._first = dict(completion) if completion is not None else None
        elif any(self._texts):  # a round that had nothing but function calls of ours is nothing to the client
            self._texts.append("\n")
        self._texts.append(answer.text)
        self._last_message = first_message(completion)
        return answer

    async def block(self, text: str) -> None:
        """A ShowVCP block between the texts."""
        self._texts.append(text)

    async def failed(self, error: VcpError) -> None:
        """On the first call the upstream's own status (D26); later what was collected, with a note (B25)."""
        if self.body is not None:
            return
        if self._rounds == 0:
            self.headers = failure_headers(error)
            self.status, self.body = error_answer(error)
            return
        self._texts.append("\n" + failure_text(error))
        await self.finish(Ending({0: DEFAULT_FINISH}, None))

    async def interrupted(self) -> None:
        """The answer of an interrupted plain request (spec 1.7)."""
        if self.body is None:
            message = {"role": "assistant", "content": markers.INTERRUPTED}
            self.body = {"choices": [{"index": 0, "message": message, "finish_reason": DEFAULT_FINISH}]}

    async def finish(self, ending: Ending) -> None:
        """The first reply with all texts in it and the true last finish reason."""
        if self.body is not None:
            return
        body: dict[str, Any] = self._first or {"object": "chat.completion", "model": self._model}
        choices = choices_of(body)
        head: dict[str, Any] = dict(choices[0]) if choices else {"index": 0}
        message = dict(head["message"]) if isinstance(head.get("message"), dict) else {"role": "assistant"}
        if self._rounds > 1 and "tool_calls" in self._last_message:
            message["tool_calls"] = self._last_message["tool_calls"]
        text = whole("".join(self._texts))
        said = message.get("content")
        silent = said is None and "tool_calls" not in message  # clients want a string then
        if silent or text != text_of(said):  # content in parts stays as it came when nothing was added to it
            message["content"] = text
        head["message"] = message
        head["finish_reason"] = "length" if ending.calls_left else ending.finish_reasons.get(0, DEFAULT_FINISH)
        body = {**body, "choices": [head, *choices[1:]]}
        if ending.usage is not None:
            body["usage"] = dict(ending.usage)
        self.body = body
