"""Reading one round's streamed answer: what the client gets of each event, and what the turn learns from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from app.chat.payload import dumps, loads
from app.errors import UpstreamBrokenError, both
from app.extend import NativeIntake
from app.protocol.chat import DONE_DATA, sse, text_of
from app.protocol.half_characters import PieceJoiner
from app.protocol.sse import SseEvent

log = logging.getLogger(__name__)

MAX_REPLY_CHARS = 64 * 1024 * 1024
"""Most characters of one round's text; beyond it the upstream is called broken."""

MAX_DROPPED_LOGGED = 5


class AnswerState:
    """What is remembered over all rounds of a streamed answer: roles sent, the upstream's model and time."""

    __slots__ = ("created", "model", "roles_sent")

    def __init__(self) -> None:
        self.roles_sent: set[int] = set()
        self.created: int | None = None
        self.model: str | None = None


class RoundReader:
    """Takes the events of one round in order.

    ``take`` returns the bytes that go to the client at once: the event as it came, unless something in it belongs to
    the end of the answer (finish reasons, usage) or was said before (the role). ``take_text`` gives new content of
    choice 0 for the scanner. ``first_token`` is called once, with the first piece of any choice: text, thought or
    native call. With ``first_choice_only`` the other choices are left out, whatever the upstream sends (D32).
    ``native`` keeps function calls of ours, which the client never sees.
    """

    def __init__(
        self,
        answer: AnswerState,
        first_token: Callable[[], None] = lambda: None,
        *,
        forward_usage: bool = False,
        first_choice_only: bool = False,
        native: NativeIntake | None = None,
    ) -> None:
        self._answer = answer
        self._first_token = first_token
        self._spoke = False
        self._forward_usage = forward_usage
        self._first_choice_only = first_choice_only
        self._native = native
        self._last_chunk: dict[str, Any] = {}
        self._joiner = PieceJoiner()
        self._pieces: list[str] = []
        self._chars = 0
        self._dropped = 0
        self._new_text: list[str] = []
        self.finish_reasons: dict[int, str] = {}
        self.usage: Mapping[str, Any] | None = None
        self.native_calls = False
        self.done = False

    @property
    def text(self) -> str:
        """All content of choice 0 so far."""
        return "".join(self._pieces)

    @property
    def finish_reason(self) -> str | None:
        """The finish reason of choice 0, or None while there is none."""
        return self.finish_reasons.get(0)

    @property
    def said(self) -> bool:
        """Whether choice 0 had any content."""
        return bool(self._chars)

    @property
    def has_news(self) -> bool:
        """Whether there is something that a ``CallFormat`` has to be fed: new text, or calls that are complete."""
        return bool(self._new_text) or (self._native is not None and self._native.ready)

    def finish(self) -> bytes | None:
        """The stream ended; what the client gets of what was held back, if anything."""
        self._add_text(self._joiner.finish())
        return None if self._native is None else self._finish_native(self._native)

    def _finish_native(self, native: NativeIntake) -> bytes | None:
        choices = []
        for index, pieces in native.finish().items():
            delta: dict[str, Any] = {"tool_calls": pieces}
            if index not in self._answer.roles_sent:
                self._answer.roles_sent.add(index)
                delta["role"] = "assistant"
            self.native_calls = self.native_calls or index == 0
            choices.append({"index": index, "delta": delta, "finish_reason": None})
        for index, reason in self.finish_reasons.items():
            self.finish_reasons[index] = native.finish_reason(index, reason)
        if not choices:
            return None
        frame = {name: value for name, value in self._last_chunk.items() if name != "usage"}
        return sse(dumps({**frame, "choices": choices}))

    def take_text(self) -> str:
        """The content of choice 0 that came since the last time."""
        text = "".join(self._new_text)
        self._new_text.clear()
        return text

    def take(self, event: SseEvent) -> bytes | None:
        """Read one event; the bytes to forward, or None."""
        data = event.data
        if data.strip() == DONE_DATA:
            self.done = True
            return None
        try:
            chunk = loads(data)
        except (ValueError, RecursionError):
            self._drop(data)
            return None
        if not isinstance(chunk, dict):
            self._drop(data)
            return None
        if error := chunk.get("error"):  # some providers send choices with it
            said = error.get("message") if isinstance(error, dict) else None
            raise UpstreamBrokenError(
                f"{both('上游在流中报告错误', 'the upstream reported an error in its stream')}: {said or error}"
            )
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            # A kind of event that we do not know is passed on; one that has nothing but usage is ours to tell.
            return None if self._read_usage(chunk) else event.raw
        if self._answer.created is None or self._answer.model is None:
            self._identify(chunk)
        changed = self._read_usage(chunk)
        if self._native is not None:
            self._last_chunk = chunk
        kept = []
        for choice in choices:
            if not isinstance(choice, dict) or (self._first_choice_only and _index(choice)):
                changed = True
                continue
            keep, altered = self._read_choice(choice)
            changed = changed or altered or not keep
            if keep:
                kept.append(choice)
        if not kept:
            return event.raw if not choices and not changed else None
        if not changed:
            return event.raw
        chunk["choices"] = kept
        return sse(dumps(chunk))

    def _drop(self, data: bytes) -> None:
        self._dropped += 1
        if self._dropped <= MAX_DROPPED_LOGGED:
            log.warning("dropped an event of the upstream that is not a JSON object: %r", data[:200])

    def _identify(self, chunk: dict[str, Any]) -> None:
        # The first chunk need not know: Azure begins with one that has neither.
        answer = self._answer
        created, model = chunk.get("created"), chunk.get("model")
        if answer.created is None and isinstance(created, int) and created > 0:
            answer.created = created
        if answer.model is None and isinstance(model, str) and model:
            answer.model = model

    def _read_usage(self, chunk: dict[str, Any]) -> bool:
        """Remember the usage of the round; True when it was taken out of the chunk."""
        usage = chunk.get("usage")
        if not isinstance(usage, Mapping):
            return False
        self.usage = usage
        if self._forward_usage:
            return False
        del chunk["usage"]
        return True

    def _read_choice(self, choice: dict[str, Any]) -> tuple[bool, bool]:
        """Whether the choice still says something now, and whether it was changed."""
        index = _index(choice)
        altered = False
        finish = choice.get("finish_reason")
        if finish is not None:
            if finish:  # some providers write an empty one into every chunk
                self.finish_reasons[index] = str(finish)
            choice["finish_reason"] = None
            altered = True
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            message = choice.get("message")  # some servers write the whole message into a chunk
            if self._native is not None and isinstance(message, dict):
                altered = self._native.take_whole(index, message) or altered
            return finish is None, altered
        if not self._spoke and any(name != "role" and value for name, value in delta.items()):
            self._spoke = True
            self._first_token()
        if self._native is not None and self._native.take(index, delta):
            altered = True
        if index == 0:
            if delta.get("tool_calls") or delta.get("function_call"):
                self.native_calls = True
            if content := text_of(delta.get("content")):
                self._add_text(self._joiner.feed(content))
        if index not in self._answer.roles_sent:
            self._answer.roles_sent.add(index)
            if not delta.get("role"):
                choice["delta"] = {**delta, "role": "assistant"}
                altered = True
            return True, altered
        if "role" in delta:
            del delta["role"]
            altered = True
        if not altered:
            return True, False
        return any(value not in (None, "", [], {}) for value in delta.values()), True

    def _add_text(self, content: str) -> None:
        if not content:
            return
        self._chars += len(content)
        if self._chars > MAX_REPLY_CHARS:
            raise UpstreamBrokenError(
                both(
                    f"上游的回答超过 {MAX_REPLY_CHARS} 个字符",
                    f"the upstream's reply is longer than {MAX_REPLY_CHARS} characters",
                )
            )
        self._pieces.append(content)
        self._new_text.append(content)


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0
