"""Function calls of the chat API: put together from their pieces, ours told from those of the client. Pure.

Providers write them in many ways: the index or the id may be missing or be the same for several calls, the name may
come in pieces or be repeated in each (P21), pieces of two calls may take turns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.protocol.json_text import compact_json, strict_json

MAX_CALLS = 4096
"""Most calls of one reply; one with more is broken."""

MAX_PIECES_CHARS = 64 * 1024 * 1024
"""Most characters of all calls of one reply."""

_KNOWN_FIELDS = frozenset(("index", "id", "type", "function"))
_PIECE_CHARS = 32  # what a piece counts beside its text, so that empty ones have a limit too
_PARSE_FACTOR = 4  # characters may be read so often to see whether arguments are whole


class NativeCallsError(ValueError):
    """There are more calls, or larger ones, than a reply may have."""


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A complete call as the model wrote it; ``extra`` are fields that the provider wants back (signatures).

    ``place`` counts the calls of the reply in the order in which they began.
    """

    id: str
    name: str
    arguments: str
    place: int
    extra: Mapping[str, Any] = field(default_factory=dict)


def object_of(arguments: str) -> dict[str, Any]:
    """The arguments as an object; ValueError when they are none. Nothing at all means no arguments.

    Some models write the object as a JSON string.
    """
    if not arguments.strip():
        return {}
    try:
        value = strict_json(arguments)
        if isinstance(value, str):
            value = strict_json(value)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return value


class NativeCallSorter:
    """Takes the calls of a reply, in the pieces of a stream or whole, choice by choice.

    ``ours`` and ``theirs`` are names of functions; a name in neither is the client's (D3). A call is ours or theirs as
    soon as its name can only be one or the other; until then its pieces are held back. What is the client's is counted
    from 0, for clients put calls together by their index. ``kept`` and ``passed`` are the calls of a choice that are
    ours and theirs. Only the first choice's are told (D32).
    """

    def __init__(self, ours: Collection[str], theirs: Collection[str] = ()) -> None:
        self._ours = frozenset(ours) - frozenset(theirs)
        self._known = sorted({*ours, *theirs})
        self._all: list[_Call] = []
        self._by_index: dict[tuple[int, int], _Call] = {}
        self._by_id: dict[tuple[int, str], _Call] = {}
        self._last: dict[int, _Call] = {}
        self._chars = 0
        self._parsed = 0
        self._ready: list[NativeCall] = []
        self.passed: Counter[int] = Counter()
        self.kept: Counter[int] = Counter()

    @property
    def ready(self) -> bool:
        """Whether ``take_ready`` has something to give."""
        return bool(self._ready)

    def take_ready(self) -> list[NativeCall]:
        """The calls of ours that became complete since the last time, in that order."""
        ready, self._ready = self._ready, []
        return ready

    def take(self, choice: int, pieces: Sequence[Any]) -> list[Any]:
        """Take the next pieces; what the client gets of them now, the very pieces where nothing had to be changed.

        Raises NativeCallsError when there are too many.
        """
        out: list[Any] = []
        for piece in pieces:
            if isinstance(piece, Mapping):
                out.extend(self._take(choice, piece))
            else:
                out.append(piece)  # not ours to judge
        return out

    def take_whole(self, choice: int, calls: Sequence[Any]) -> list[Any]:
        """Take the calls of a whole message; those that are the client's, as they came."""
        out: list[Any] = []
        for entry in calls:
            if not isinstance(entry, Mapping):
                out.append(entry)
                continue
            call = self._begin(choice)
            self._feed(call, entry)
            self._decide(call, final=True)
            if call.ours:
                self._complete(call)
            else:
                out.append(entry)
        return out

    def finish(self) -> dict[int, list[Any]]:
        """The reply has ended and all calls are complete; by choice, what was held back and is the client's after all.

        To be called once.
        """
        out: dict[int, list[Any]] = {}
        for call in self._all:
            if call.ours is None:
                held = self._decide(call, final=True)
                if held:
                    out.setdefault(call.choice, []).extend(held)
            if call.ours:
                self._complete(call)
        return out

    def _take(self, choice: int, piece: Mapping[str, Any]) -> Sequence[Any]:
        call, last = self._call_of(choice, piece), self._last.get(choice)
        if last is not None and last is not call:
            self._left(last)
        self._last[choice] = call
        if call.ours is None:
            self._feed(call, piece)
            call.held.append(piece)
            return self._decide(call)
        if call.ours:
            self._feed(call, piece)
            return ()
        return (call.numbered(piece),)

    def _call_of(self, choice: int, piece: Mapping[str, Any]) -> _Call:
        index, id = _index(piece), _text(piece.get("id"))
        call: _Call | None
        if index is not None:
            call = self._by_index.get((choice, index))
            if call is not None and id and call.id and id != call.id and _name(piece) and self._is_whole(call):
                call = None  # some count all calls as number 0
        elif id:
            call = self._by_id.get((choice, id))
        else:
            call = self._last.get(choice)
            if call is not None and _name(piece) and _arguments(piece) and self._is_whole(call):
                call = None  # neither index nor id: each piece is a whole call
        if call is None:
            call = self._begin(choice)
        if index is not None:
            self._by_index[choice, index] = call
        if id:
            self._by_id.setdefault((choice, id), call)
        return call

    def _begin(self, choice: int) -> _Call:
        if len(self._all) >= MAX_CALLS:
            raise NativeCallsError(f"more than {MAX_CALLS} function calls")
        call = _Call(choice, len(self._all))
        self._all.append(call)
        return call

    def _feed(self, call: _Call, piece: Mapping[str, Any]) -> None:
        name, arguments = _name(piece), _arguments(piece)
        if name and not call.arguments:
            call.name = self._joined(call.name, name)
        call.feed(piece, arguments)
        more = sum(len(key) + _size(value) for key, value in piece.items() if key not in _KNOWN_FIELDS)
        self._chars += len(name) + len(arguments) + len(_text(piece.get("id"))) + more + _PIECE_CHARS
        if self._chars > MAX_PIECES_CHARS:
            raise NativeCallsError(f"function calls of more than {MAX_PIECES_CHARS} characters")

    def _joined(self, name: str, more: str) -> str:
        """A name and its next piece; some providers repeat the name, or write all of it so far each time."""
        whole = name + more
        if not more.startswith(name) or any(known.startswith(whole) for known in self._from(whole)[:1]):
            return whole
        return more

    def _from(self, name: str) -> Sequence[str]:
        """The known names from ``name`` on, as many as tell whether one of them begins with it."""
        at = bisect_left(self._known, name)
        return self._known[at : at + 2]

    def _decide(self, call: _Call, *, final: bool = False) -> Sequence[Any]:
        """Say whose the call is, if that is certain by now; the pieces that the client gets therefore."""
        if not (final or call.arguments or "custom" in call.extra):  # a custom tool is never ours
            longer = any(name != call.name and name.startswith(call.name) for name in self._from(call.name))
            if not call.name or longer:
                return ()
        call.ours = call.name in self._ours
        held, call.held = call.held, []
        if call.ours:
            self.kept[call.choice] += 1
            return ()
        call.number = self.passed[call.choice]
        self.passed[call.choice] += 1
        return [call.numbered(piece) for piece in held]

    def _left(self, call: _Call) -> None:
        """Another call's piece has come: this one is complete, unless they take turns (D24)."""
        if call.ours and not call.was_left:
            call.was_left = True
            if self._is_whole(call):
                self._complete(call)

    def _complete(self, call: _Call) -> None:
        if call.given:
            return
        call.given = True
        if call.choice == 0:
            self._ready.append(NativeCall(call.id, call.name, "".join(call.arguments), call.place, call.extra))

    def _is_whole(self, call: _Call) -> bool:
        """Whether the arguments so far are an object. Looks at no character more than a few times."""
        if not call.arguments or not call.arguments[-1].rstrip().endswith("}"):
            return False
        self._parsed += call.size
        if self._parsed > _PARSE_FACTOR * self._chars:
            return False
        try:
            object_of("".join(call.arguments))
        except ValueError:
            return False
        return True


class _Call:
    """One call on its way to be whole. ``ours`` is None while nobody knows."""

    __slots__ = (
        "arguments",
        "choice",
        "extra",
        "given",
        "held",
        "id",
        "name",
        "number",
        "ours",
        "place",
        "size",
        "was_left",
    )

    def __init__(self, choice: int, place: int) -> None:
        self.choice = choice
        self.place = place
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.size = 0
        self.extra: dict[str, Any] = {}
        self.ours: bool | None = None
        self.held: list[Any] = []
        self.number = 0
        self.was_left = False
        self.given = False

    def feed(self, piece: Mapping[str, Any], arguments: str) -> None:
        """Take a piece, but for its name."""
        self.id = self.id or _text(piece.get("id"))
        if arguments:
            self.arguments.append(arguments)
            self.size += len(arguments)
        for key, value in piece.items():
            if key not in _KNOWN_FIELDS and value is not None:
                self.extra[key] = value

    def numbered(self, piece: Any) -> Any:
        """The piece with the number that the call has for the client."""
        index = _index(piece)
        return piece if index is None or index == self.number else {**piece, "index": self.number}


def _index(piece: Mapping[str, Any]) -> int | None:
    index = piece.get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _size(value: Any) -> int:
    try:
        return len(value) if isinstance(value, str) else len(compact_json(value))
    except RecursionError:
        raise NativeCallsError("function calls with something nested too deeply") from None


def _function(piece: Mapping[str, Any]) -> Mapping[str, Any]:
    function = piece.get("function")
    return function if isinstance(function, Mapping) else {}


def _name(piece: Mapping[str, Any]) -> str:
    return _text(_function(piece).get("name"))


def _arguments(piece: Mapping[str, Any]) -> str:
    """The piece of the arguments; some providers write the object itself."""
    arguments = _function(piece).get("arguments")
    return compact_json(arguments) if isinstance(arguments, Mapping) else _text(arguments)
