"""Headers of answers that came from an upstream."""

from __future__ import annotations


def raw_header(name: str, value: str) -> tuple[bytes, bytes]:
    """Name and value as ASGI takes them. The bytes of a value go on as they came, be they latin-1 or not."""
    return name.lower().encode(), value.encode("utf-8", "surrogateescape")
