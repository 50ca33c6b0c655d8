"""Numbers as people read them."""

from __future__ import annotations


def size(count: float | None) -> str:
    """Bytes: ``1.5 MiB``; a dash for what is not known."""
    if count is None:
        return "–"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def number(value: float | None) -> str:
    """A number with separators, at most two places behind the point; a dash for what is not known."""
    if value is None:
        return "–"
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.2f}"


def duration(seconds: float | None) -> str:
    """A span of time: ``85 ms``, ``3.2 s``, ``4 min``, ``2 h 5 min``, ``3 d 4 h``; a dash for what is not known."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"
