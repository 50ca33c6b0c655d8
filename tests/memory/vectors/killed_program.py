"""Fills the vectors of a folder until somebody kills it: ``killed_program.py FOLDER MODEL [STEP]``.

It kills itself at a step of the change of sets: in the transaction that lets the new one serve or takes the old one
out, or between that and the removal of its file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from app.memory.embedders.embedder import Signature
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.vectors import filling, sets, tables
from tests.memory.vectors.installation import installed


def die(*_: object) -> None:
    """As ``kill -9`` does it."""
    os.kill(os.getpid(), signal.SIGKILL)


def dying_after(work: Callable[..., object]) -> Callable[..., object]:
    """Do the work, and die before anybody hears of it."""
    return lambda *given: die(work(*given))


class Named(HashingEmbedder):
    """Hashing under the name of another model."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = model

    @property
    def signature(self) -> Signature:
        return Signature(self.model, super().signature.dimension, "")


async def main(folder: Path, model: str) -> None:
    """Go on with what is there."""
    filling.BATCH_TEXTS = 3
    async with installed(folder) as part:
        part.embedder[0] = Named(model)
        await part.sync.caught_up()
        print("begun", flush=True)
        await part.fill()
        print("done", flush=True)


if __name__ == "__main__":
    match sys.argv[3:]:
        case ["serve"]:
            tables.serve = dying_after(tables.serve)  # type: ignore[assignment]
        case ["drop"]:
            tables.drop_set = dying_after(tables.drop_set)  # type: ignore[assignment]
        case ["remove"]:
            sets.remove_set = die
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
