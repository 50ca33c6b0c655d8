"""Fills the vectors of a folder until somebody kills it: ``killed_program.py FOLDER MODEL``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from app.memory.embedders.embedder import Signature
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.vectors import filling
from tests.memory.vectors.installation import installed


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
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
