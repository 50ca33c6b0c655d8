"""Reading one round's streamed answer: what the client gets of each event, and what the turn learns from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from app.chat.payload import dumps, joined_text, loads
from app.chat.skeleton import ChunkSkeleton
from app.errors import UpstreamBrokenError
from app.protocol.chat import DONE_DATA, sse
from app.protocol.sse import SseEvent

log = logging.getLogger(__name__)

MAX_REPLY_CHARS = 64 * 1024 * 1024
"""Most characters of one round's text; beyond it the upstream is called broken."""

MAX_DROPPED_LOGGED = 5


class AnswerState:
    """What is remembered over all rounds of a streamed answer: roles sent, identity of the first chunk, headers."""

    __slots__ = ("created", "headers", "id", "model", "roles_sent")

    def __init__(self) -> None:
        self.roles_sent: set[int] = set()
        self.id: str | None = None
        self.created: int | None = None
        self.model: str | None = None
        self.headers: dict[str, str] = {}


class RoundReader:
    """Takes the events of one round in order.

    ``take`` returns the bytes that go to the client at once: the event as it came, unless something in it belongs to
    the end of the answer (finish reasons, usage) or was said before (the role). ``new_text`` collects content of
    choice 0 for the scanner until the turn takes it.
    """

    def __init__(
        self, answer: AnswerState, first_token: Callable[[], None] = lambda: None, *, forward_usage: bool = False
    ) -> None:
        self._answer = answer
        self._first_token = first_token
        self._forward_usage = forward_usage
        self._pieces: list[str] = []
        self._chars = 0
        self._dropped = 0
        self._skeleton = ChunkSkeleton()
        self.new_text: list[str] = []
        self.finish_reasons: dict[int, str] = {}
        self.usage: Mapping[str, Any] | None = None
        self.native_calls = False
        self.done = False

    @property
    def text(self) -> str:
        """All content of choice 0 so far."""
        return joined_text(self._pieces)

    @property
    def finish_reason(self) -> str | None:
        """The finish reason of choice 0, or None while there is none."""
        return self.finish_reasons.get(0)

    def take(self, event: SseEvent) -> bytes | None:
        """Read one event; the bytes to forward, or None."""
        data = event.data
        if content := self._skeleton.content_of(data):
            self._add_text(content)
            return event.raw
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
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return self._without_choices(chunk, event)
        if self._answer.id is None:
            self._identify(chunk)
        changed = self._read_usage(chunk)
        kept = []
        for choice in choices:
            if not isinstance(choice, dict):
                changed = True
                continue
            keep, altered = self._read_choice(choice)
            changed = changed or altered or not keep
            if keep:
                kept.append(choice)
        if not kept:
            return event.raw if not choices and not changed else None
        if changed:
            chunk["choices"] = kept
            return sse(dumps(chunk))
        self._learn(data, chunk, kept)
        return event.raw

    def _learn(self, data: bytes, chunk: dict[str, Any], choices: list[dict[str, Any]]) -> None:
        """Remember the form of a chunk whose like is passed on unchanged and adds its content: no role, choice 0."""
        delta = choices[0].get("delta")
        if len(choices) > 1 or choices[0].get("index", 0) != 0 or not isinstance(delta, dict) or "role" in delta:
            return
        content = delta.get("content")
        if isinstance(content, str) and content:
            self._skeleton.learn(data, chunk, content)

    def _without_choices(self, chunk: dict[str, Any], event: SseEvent) -> bytes | None:
        error = chunk.get("error")
        if error:
            message = error.get("message") if isinstance(error, dict) else None
            raise UpstreamBrokenError(f"the upstream reported an error in its stream: {message or error}")
        if self._read_usage(chunk):
            return None
        return event.raw  # a kind of event that we do not know is passed on (rule 7 of the pitfalls)

    def _drop(self, data: bytes) -> None:
        self._dropped += 1
        if self._dropped <= MAX_DROPPED_LOGGED:
            log.warning("dropped an event of the upstream that is not a JSON object: %r", data[:200])

    def _identify(self, chunk: dict[str, Any]) -> None:
        answer = self._answer
        identifier, created, model = chunk.get("id"), chunk.get("created"), chunk.get("model")
        answer.id = identifier if isinstance(identifier, str) else ""
        answer.created = created if isinstance(created, int) else None
        answer.model = model if isinstance(model, str) else None

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
        index = choice.get("index", 0)
        index = index if isinstance(index, int) else 0
        altered = False
        finish = choice.get("finish_reason")
        if finish is not None:
            self.finish_reasons[index] = str(finish)
            choice["finish_reason"] = None
            altered = True
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return finish is None, altered
        if delta.get("tool_calls") and index == 0:
            self.native_calls = True
        content = delta.get("content")
        if index == 0 and isinstance(content, str) and content:
            self._add_text(content)
        if index not in self._answer.roles_sent:
            self._answer.roles_sent.add(index)
            if "role" not in delta:
                choice["delta"] = {"role": "assistant", **delta}
                altered = True
            return True, altered
        if "role" in delta:
            del delta["role"]
            altered = True
        if not altered:
            return True, False
        return any(value not in (None, "", [], {}) for value in delta.values()), True

    def _add_text(self, content: str) -> None:
        self._chars += len(content)
        if self._chars > MAX_REPLY_CHARS:
            raise UpstreamBrokenError(f"the upstream's reply is longer than {MAX_REPLY_CHARS} characters")
        if not self._pieces:
            self._first_token()
        self._pieces.append(content)
        self.new_text.append(content)
