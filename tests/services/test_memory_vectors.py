"""The vectors of a server: begun with the first note, shown, confirmed by a person (D82, 11.4, 11.31)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import NotFoundError
from app.memory.vectors.filling import Reembedding
from app.memory.vectors.old_store import ImportRefusedError
from app.services import Services
from app.services.memory_vectors import VectorsService
from app.upstream.targets import SingleUpstream
from tests.server import KEY
from tests.services.test_memory_embedders import config


async def until(true: Callable[[], bool]) -> None:
    for _ in range(1500):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


def test_vectors_begin_with_the_first_note_and_are_shown(tmp_path: Path) -> None:
    async def main() -> None:
        made = Services(
            config(tmp_path, "MemoryEmbedder=hashing"), KEY, resolver=SingleUpstream("http://127.0.0.1:9", "demo")
        )
        memory = made.memory
        index, service = memory.index, memory.vectors
        assert isinstance(service, VectorsService)
        await index.start()
        await service.start()
        try:
            assert service.vectors is None
            assert service.status() == {"ready": False, "vectors": 0, "pending": 0}
            with pytest.raises(NotFoundError):
                service.reembed(confirm=True)
            note = tmp_path / "dailynote" / "小克" / "1.txt"
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text("[2025-11-27] - 小克\n散步。\nTag: 银杏", encoding="utf-8")
            assert index.sync is not None
            index.sync.look(["小克/1.txt"])
            await until(lambda: service.status()["vectors"] == 2)
            status = service.status()
            assert status["ready"] is True
            assert str(status["serving"]).startswith("hashing")
            assert service.readings()[("vectors",)] == 2
            assert service.reembed(confirm=True) == {"waiting": None, "confirmed": False, "building": None}
            filling = service.filling
            assert filling is not None
            filling.unconfirmed = Reembedding("m|8|", "m", 3000, 1_000_000, 0.13)
            assert service.reembed(confirm=False)["waiting"] == {
                "model": "m",
                "texts": 3000,
                "tokens": 1_000_000,
                "cost": 0.13,
            }
            assert service.reembed(confirm=True)["confirmed"] is True
            with pytest.raises(ImportRefusedError):
                await service.import_store(str(tmp_path / "none"), confirm=False)
        finally:
            await service.stop()
            await index.stop()
            await made.upstream.stop()

    asyncio.run(main())


def test_without_memory_nothing_begins(tmp_path: Path) -> None:
    async def main() -> None:
        made = Services(config(tmp_path, "Memory=false"), KEY, resolver=SingleUpstream("http://127.0.0.1:9", "demo"))
        await made.memory.index.start()
        await made.memory.vectors.start()
        assert made.memory.vectors.vectors is None
        await made.memory.vectors.stop()
        await made.memory.index.stop()

    asyncio.run(main())
