"""A process that is killed while it fills or changes places loses nothing and mixes no models (11.2 to 11.4)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from app.memory.index.chunks import embedded_sha
from app.memory.vectors import tables
from tests.memory.vectors.installation import installed
from tests.memory.vectors.killed_program import Named

ROOT = Path(__file__).parents[3]
NOTES = 40


def killed(folder: Path, model: str, seconds: float, *step: str) -> bool:
    """Run the program and kill it so long after it has begun, or let it do so at a step; whether it was done before."""
    command = [sys.executable, "-m", "tests.memory.vectors.killed_program", str(folder), model, *step]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"begun\n"
        if not step:
            time.sleep(seconds)  # not to wait for something: the moment of death
            program.kill()
        return b"done" in program.stdout.read()


async def check(folder: Path, model: str) -> None:
    """Whatever is there is whole, and becomes a single set of this model with the vectors of all notes."""
    async with installed(folder) as part:
        part.embedder[0] = embedder = Named(model)
        for one in (part.sets.serving, part.sets.building):
            if one is None:
                continue
            rows = await part.sets.database.read(lambda connection, one=one: tables.all_rows(connection, one.id))
            assert len(set(rows.values())) == len(rows) == one.count
            kept = await part.sets.database.read(
                lambda connection, one=one: tables.vectors_in_rows(connection, one.id, 0, 10**6)
            )
            assert all(np.array_equal(vector, one.rows[row]) for row, vector in kept.items())
        await part.sync.caught_up()
        await part.fill()
        assert part.sets.serving is not None
        assert part.sets.serving.signature.startswith(model)
        assert part.sets.building is None
        assert not len(part.sets.missing)
        texts = await part.index.embedded_texts([place.id for place in await part.index.places()])
        own = await embedder.embed_passages({str(chunk): text for chunk, text in texts.items()})
        rows = await part.sets.serving.rows_of([embedded_sha(text) for text in texts.values()])
        assert len(rows) == NOTES
        for chunk, text in texts.items():
            assert np.allclose(part.sets.serving.rows[rows[embedded_sha(text)]], own.vectors[str(chunk)])
        assert len(list((folder / "vectors").iterdir())) == 1


async def write(folder: Path) -> None:
    """Notes without vectors."""
    async with installed(folder) as part:
        await part.write({f"小克/{n}.txt": f"[2025-11-27] - 小克\n第{n}天散步，看到{n}棵银杏。" for n in range(NOTES)})


def test_killed_at_any_moment_it_goes_on_where_it_was(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path))
    for number, seconds in enumerate((0.02, 0.05, 0.15)):
        killed(tmp_path, "first/1" if number < 1 else "second/1", seconds)
    asyncio.run(check(tmp_path, "second/1"))


@pytest.mark.parametrize("step", ["serve", "drop", "remove"])
def test_11_4_killed_while_two_sets_change_places_one_of_them_serves_and_the_other_goes(
    tmp_path: Path, step: str
) -> None:
    async def first() -> None:
        await write(tmp_path)
        async with installed(tmp_path) as part:
            part.embedder[0] = Named("first/1")
            await part.fill()

    asyncio.run(first())
    assert not killed(tmp_path, "second/1", 0, step)
    asyncio.run(check(tmp_path, "second/1"))
