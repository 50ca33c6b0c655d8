"""How long the server waits for a model API, and how much of an error it keeps."""

from __future__ import annotations

from dataclasses import dataclass

ERROR_BODY_BYTES = 1024 * 1024
"""What is kept of the body of an error answer."""

ERROR_BODY_SECONDS = 30.0
"""How long the body of an error answer is waited for; its status is known by then."""


LIST_BYTES = 8 * 1024 * 1024
"""Largest list of models of one upstream that is merged into one."""

LIST_SECONDS = 10.0
"""How long one of several upstreams may take for its list of models; a slow one must not hold up the others' lists."""


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """Time limits in seconds; there is none on the whole answer (P29, P33).

    ``connect``: name lookup, TCP, proxy and TLS. ``first_byte``: from the connection to the first byte of the body.
    ``idle``: silence between two pieces of the body, counted only while the server waits for one. ``queue``: waiting
    for a place where the number of requests is limited.
    """

    connect: float = 30.0
    first_byte: float = 900.0
    idle: float = 300.0
    queue: float = 60.0

    def __post_init__(self) -> None:
        for name in ("connect", "first_byte", "idle", "queue"):
            seconds: float = getattr(self, name)
            if not 0 < seconds < float("inf"):
                raise ValueError(f"the {name} limit must be a positive number of seconds, not {seconds}")
