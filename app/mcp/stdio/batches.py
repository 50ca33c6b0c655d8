"""Requests that run, and the arrays in which some of them came (mcp.md MCP-4, MCP-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.errors import both
from app.mcp.stdio.frames import INTERNAL_ERROR, Fault, RequestId, encoded, error_object

BATCH_REVISIONS = frozenset({"2024-11-05", "2025-03-26"})
"""Those that have batches; 2025-06-18 took them out."""

MAX_BATCH = 1000
"""Most entries of one array."""

MAX_FRAME_BYTES = 8 * 1024 * 1024
"""Longest frame that goes out (STD-28)."""


class Batch:
    """The answers to one array, which go out together when all of them are there."""

    def __init__(self) -> None:
        self._answers: list[tuple[RequestId | None, bytes]] = []
        self._open = 1  # whoever reads the array counts as one, until its last entry

    def opened(self) -> None:
        """One more entry gets an answer later."""
        self._open += 1

    def answered(self, id: RequestId | None, frame: bytes) -> None:
        """The answer to an entry is there."""
        self._answers.append((id, frame))

    def closed(self) -> bytes | None:
        """One entry is done. The array, when it was the last; None before that, and when nothing is to be told."""
        self._open -= 1
        if self._open or not self._answers:
            return None
        return joined(self._answers)


def joined(answers: Sequence[tuple[RequestId | None, bytes]], limit: int = MAX_FRAME_BYTES) -> bytes:
    """One array of all answers; the longest become errors until the array is no longer than ``limit``."""
    frames = [frame for _, frame in answers]
    size = sum(map(len, frames)) + len(frames) + 1
    for index in sorted(range(len(frames)), key=lambda one: -len(frames[one])):
        if size <= limit:
            break
        shorter = too_large(answers[index][0], len(frames[index]))
        size += len(shorter) - len(frames[index])
        frames[index] = shorter
    return b"[" + b",".join(frames) + b"]"


def too_large(id: RequestId | None, size: int) -> bytes:
    """The error in place of an answer that is too long (STD-28)."""
    text = both(
        f"结果过大（{size} 字节，上限 {MAX_FRAME_BYTES}）",
        f"the result is too large ({size} bytes, at most {MAX_FRAME_BYTES})",
    )
    return encoded(error_object(Fault(INTERNAL_ERROR, text, id)))


@dataclass(slots=True)
class Running:
    """A request that has no answer yet.

    ``cancelled`` is set when the client wants none any more (MCP-8); ``settled`` when all is over.
    """

    id: RequestId
    method: str
    size: int
    batch: Batch | None = None
    cancelled: bool = False
    settled: asyncio.Event = field(default_factory=asyncio.Event)


def key(id: RequestId) -> RequestId:
    """What ids are compared by: 7 and "7" are one, since the SDK finds the request to cancel like that."""
    if isinstance(id, str):
        try:
            return int(id)
        except ValueError:
            return id
    return id
