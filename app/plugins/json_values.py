"""Values that in-process plugins hand over, checked before the server relies on them."""

from __future__ import annotations

import math

from app.errors import VcpError, both
from app.extend import Json

DEPTH_LIMIT = 200
"""Deepest nesting of lists and objects; JSON writers further on recurse."""


INTEGER_BITS = 14_000
"""Longest whole number; Python refuses to write those of more than 4,300 digits, which is a little beyond."""


_Place = tuple["_Place | None", str | int] | None
"""Where a value stands: the place around it and the name or number there; None for the whole. A text only if needed."""


class NotJsonError(VcpError):
    """A plugin returned what JSON has no words for, or more of it than is allowed; the message names the place."""

    code = "not_json"


def checked_json(value: Json, limit: int) -> Json:
    """The value itself, when it is JSON of at most about ``limit`` characters; raises NotJsonError that names where.

    Tuples count as lists. Linear in the value; strings are counted, not copied.
    """
    room = limit
    waiting: list[tuple[Json, _Place, int]] = [(value, None, 0)]
    while waiting:
        item, place, depth = waiting.pop()
        room -= len(item) if isinstance(item, str) else 1
        if room < 0:
            raise NotJsonError(both(f"返回值超过上限 {limit} 个字符", f"the value is larger than {limit} characters"))
        if depth > DEPTH_LIMIT:
            raise NotJsonError(both(f"返回值嵌套超过 {DEPTH_LIMIT} 层", f"the value is nested over {DEPTH_LIMIT} deep"))
        if item is None or isinstance(item, str | bool):
            continue
        if isinstance(item, dict):
            for key, inner in item.items():
                if not isinstance(key, str):
                    raise _wrong(place, key, " key")
                room -= len(key)
                waiting.append((inner, (place, key), depth + 1))
        elif isinstance(item, list | tuple):
            waiting.extend((inner, (place, index), depth + 1) for index, inner in enumerate(item))
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise _wrong(place, item)
        elif not isinstance(item, int) or item.bit_length() > INTEGER_BITS:
            raise _wrong(place, item)
    return value


def _wrong(place: _Place, item: object, more: str = "") -> NotJsonError:
    where, kind = _shown(place) + more, type(item).__name__
    return NotJsonError(both(f"{where} 处的 {kind} 不是 JSON", f"{where} is a {kind}, which is not JSON"))


def _shown(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step[:40]}")
    return "$" + "".join(reversed(steps))
