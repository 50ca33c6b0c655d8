"""Function calls of ours in a reply: kept from the client, told to the turn, remembered for the history (D3, D33)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from app.chat.reading import MAX_REPLY_CHARS
from app.errors import UpstreamBrokenError, both
from app.extend import Json
from app.protocol.native_calls import NativeCall, NativeCallsError, NativeCallSorter

MAX_REASONING_PARTS = 100_000
"""Most entries of ``reasoning_details`` of one reply."""

_CALLS = "tool_calls"
_THOUGHT, _THOUGHTS = "reasoning_content", "reasoning_details"
_ENDED_BY_CALLS = ("tool_calls", "function_call")


class ReplyIntake:
    """The ``NativeIntake`` of one reply; ``ours`` and ``theirs`` are names of functions.

    Some providers refuse a call in the history without the thoughts that led to it, so those are kept too. Raises
    UpstreamBrokenError for a reply that is larger than any that makes sense.
    """

    def __init__(self, ours: Collection[str], theirs: Collection[str]) -> None:
        self._sorter = NativeCallSorter(ours, theirs)
        self._thought: list[str] = []
        self._thoughts: list[Json] = []
        self._thought_chars = 0

    @property
    def ready(self) -> bool:
        """Whether ``calls`` has something to give."""
        return self._sorter.ready

    def calls(self) -> list[NativeCall]:
        """Calls of ours that became complete since the last time."""
        return self._sorter.take_ready()

    def thoughts(self) -> Mapping[str, Json]:
        """Fields of the assistant's message that belong before its calls."""
        fields: dict[str, Json] = {}
        if self._thought:
            fields[_THOUGHT] = "".join(self._thought)
        if self._thoughts:
            fields[_THOUGHTS] = list(self._thoughts)
        return fields

    def take(self, choice: int, delta: dict[str, Any]) -> bool:
        """Take ours out of the next delta."""
        if choice == 0:
            self._think(delta)
        pieces = delta.get(_CALLS)
        if not isinstance(pieces, list) or not pieces:
            return False
        try:
            passed = self._sorter.take(choice, pieces)
        except NativeCallsError as error:
            raise _too_much(str(error)) from error
        return _put(delta, pieces, passed)

    def take_whole(self, choice: int, message: dict[str, Any]) -> bool:
        """Take ours out of a whole message."""
        if choice == 0:
            self._think(message)
        calls = message.get(_CALLS)
        if not isinstance(calls, list) or not calls:
            return False
        try:
            passed = self._sorter.take_whole(choice, calls)
        except NativeCallsError as error:
            raise _too_much(str(error)) from error
        return _put(message, calls, passed)

    def finish(self) -> Mapping[int, list[Json]]:
        """The reply ended; by choice, pieces that are the client's after all."""
        return self._sorter.finish()

    def finish_reason(self, choice: int, reason: str) -> str:
        """``stop`` where the upstream stopped for calls and all of them are ours."""
        ours_only = self._sorter.kept[choice] and not self._sorter.passed[choice]
        return "stop" if ours_only and reason in _ENDED_BY_CALLS else reason

    def _think(self, said: Mapping[str, Any]) -> None:
        thought, thoughts = said.get(_THOUGHT), said.get(_THOUGHTS)
        if isinstance(thought, str) and thought:
            self._thought_chars += len(thought)
            if self._thought_chars > MAX_REPLY_CHARS:
                raise _too_much(f"thoughts of more than {MAX_REPLY_CHARS} characters")
            self._thought.append(thought)
        if isinstance(thoughts, list):
            self._thoughts.extend(thoughts)
            if len(self._thoughts) > MAX_REASONING_PARTS:
                raise _too_much(f"thoughts in more than {MAX_REASONING_PARTS} parts")


def _put(said: dict[str, Any], before: list[Json], passed: list[Json]) -> bool:
    """Put what passes in the place of what came; true when that is something else."""
    if len(passed) == len(before) and all(one is other for one, other in zip(passed, before, strict=True)):
        return False
    if passed:
        said[_CALLS] = passed
    else:
        del said[_CALLS]
    return True


def _too_much(what: str) -> UpstreamBrokenError:
    return UpstreamBrokenError(both(f"上游的回答过大：{what}", f"the upstream's reply has {what}"))
