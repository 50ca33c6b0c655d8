"""Embedders whose worker is a real process with a scripted model, for tests."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from app.memory.embedders.embedder import Calibration
from app.memory.embedders.local import LocalEmbedder, LocalModel
from app.memory.embedders.worker_process import PROGRAM

HERE = Path(__file__).parent
NUMPY = str(Path(np.__file__).parents[1])
SCRIPTED = [sys.executable, "-I", "-S", "-B", str(HERE / "scripted_model.py"), str(PROGRAM.parent)]
ARGV = [*SCRIPTED, "scripted", NUMPY]
MODEL = LocalModel("scripted", "none", "1", "scripted", 4, 64, Calibration(0, 1))
SEVERAL = LocalModel("scripted", "none", "1", "scripted", 4, 64, Calibration(0, 1), group_texts=8)


def scripted(
    model: LocalModel = MODEL, *, idle: float = 0, share: float = 1.0, seconds: float = 20.0, argv: list[str] = ARGV
) -> LocalEmbedder:
    return LocalEmbedder(
        model,
        idle_seconds=lambda: idle,
        share=lambda: share,
        argv=argv,
        query_seconds=seconds,
        passages_seconds=seconds,
    )


async def until(reached: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not reached():
            await asyncio.sleep(0.01)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
