"""What a person is shown of a call that waits for his word: all of it, within limits, without codes (spec 7.6)."""

from __future__ import annotations

from collections.abc import Mapping

from app.errors import both
from app.extend import Json, ToolCall
from app.observe.digests import without_base64
from app.protocol.arguments import fold
from app.protocol.markers import KEY_TOOL_PASSWORD
from app.protocol.secret_texts import masked

MAX_CHARS = 100_000
"""Most characters of all arguments together."""

_LEAST = 200
_ITEM = 8
_PASSWORD = fold(KEY_TOOL_PASSWORD)


def shown_arguments(call: ToolCall, *, private: bool, limit: int = MAX_CHARS) -> dict[str, Json]:
    """The arguments without ``tool_password`` in any spelling, base64 as digests; with ``private`` secrets masked.

    What is over the limit is cut as ``fitted`` does it.
    """
    plain = {name: value for name, value in call.arguments.items() if fold(name) != _PASSWORD}
    shown = without_base64(plain)
    return fitted(masked(shown) if private else shown, limit)


def fitted(shown: Mapping[str, Json], limit: int) -> dict[str, Json]:
    """Arguments that have about ``limit`` characters at most.

    What is over it is cut in the middle, so that both ends are seen, and says so. No argument takes the room of
    another one: what is small is shown whole, the big ones share the rest.
    """
    rooms = _rooms({name: _size(name) + _size(value) for name, value in shown.items()}, limit)
    fields: dict[str, Json] = {}
    for name, room in rooms.items():
        cutter = _Cutter(room)
        fields[cutter.text(name)] = cutter.cut(shown[name])
    if len(rooms) < len(shown):
        fields["…"] = _left_out(len(shown) - len(rooms))
    return fields


def _rooms(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many characters each argument gets, in their order; without those that would get next to nothing."""
    names = list(sizes)[: max(1, limit // _LEAST)]
    left, rooms = limit, {}
    for number, name in enumerate(sorted(names, key=lambda name: sizes[name])):
        rooms[name] = min(sizes[name], left // (len(names) - number))
        left -= rooms[name]
    return {name: rooms[name] for name in names}


def _size(value: Json) -> int:
    if isinstance(value, str):
        return len(value) + _ITEM
    if isinstance(value, Mapping):
        return _ITEM + sum(_size(name) + _size(item) for name, item in value.items())
    return _ITEM + sum(map(_size, value)) if isinstance(value, list) else _ITEM


class _Cutter:
    def __init__(self, limit: int) -> None:
        self._left = limit

    def cut(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            fields: dict[str, Json] = {}
            for name, item in value.items():
                if self._left <= 0:
                    fields["…"] = _left_out(len(value) - len(fields))
                    break
                fields[self.text(name)] = self.cut(item)
            return fields
        if isinstance(value, list):
            items: list[Json] = []
            for item in value:
                if self._left <= 0:
                    items.append(_left_out(len(value) - len(items)))
                    break
                items.append(self.cut(item))
            return items
        self._left -= _ITEM
        return value

    def text(self, text: str) -> str:
        room = max(self._left, _LEAST)
        self._left -= len(text) + _ITEM
        if len(text) <= room:
            return text
        half = room // 2
        left_out = len(text) - 2 * half
        note = both(f"此处省略 {left_out} 个字符", f"{left_out} characters are left out here")
        return f"{text[:half]}\n[… {note} …]\n{text[-half:]}"


def _left_out(count: int) -> str:
    return both(f"省略 {count} 项", f"{count} items are left out")
