"""The vectors of a server: begun with the first note, shown, confirmed by a person (D82, 11.4, 11.31)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.errors import NotFoundError
from app.home.lock import own_home
from app.memory.vectors.filling import Reembedding
from app.memory.vectors.old_store import ImportRefusedError
from app.services import Services
from app.services.memory_vectors import VectorsService
from app.upstream.targets import SingleUpstream
from tests.cli.commands import command
from tests.memory.vectors.test_importing import store
from tests.server import KEY, run, running
from tests.services.test_memory_embedders import config
from tests.waiting import until


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
            assert memory.readings()[("vectors",)] == 2
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


def test_a_running_server_fills_vectors_and_answers_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D88: only the owner of the home has the vectors, so commands ask it; without it they say so."""

    async def main() -> None:
        note = tmp_path / "dailynote" / "小克" / "1.txt"
        note.parent.mkdir(parents=True)
        note.write_text("[2025-11-27] - 小克\n散步。\nTag: 银杏", encoding="utf-8")
        async with running(tmp_path, "http://127.0.0.1:9", config=["MemoryEmbedder=hashing"]) as server:
            await until(lambda: server.services.memory.vectors.status()["vectors"] == 2)
            status = (await server.client.get("/v1/memory/status")).json()["vectors"]
            assert (status["ready"], status["pending"], status["waiting"]) == (True, 0, None)
            told = (await server.client.get("/metrics")).text  # 11.31: queues, caches, staleness, throughput
            for name, number in (("vectors", 2), ("pending", 0), ("notes", 1), ("chunks", 1), ("waitingNotes", 0)):
                assert f'vcp_memory{{what="{name}"}} {number}.0' in told
            for name in ("staleSeconds", "textsPerSecond", "cacheHits", "cacheMisses", "embedded", "bytes"):
                assert f'vcp_memory{{what="{name}"}} ' in told
            assert 'vcp_memory{what="resultCacheMisses"} 0.0' in told
            filling = server.services.memory.vectors.filling
            assert filling is not None
            filling.unconfirmed = Reembedding("m|8|", "m", 3000, 1_000_000, 0.13)
            for body in ({"confirm": 1}, [], {"confirm": "yes"}):
                assert (await server.client.post("/v1/memory/reembed", json=body)).status_code == 400
            assert (await server.client.post("/v1/memory/import", json={"path": "a\0b"})).status_code == 400
            assert (await server.client.post("/v1/memory/import", json={"path": 1})).status_code == 400
            with own_home(tmp_path, "serve") as ownership:
                ownership.tell(server.url)
                home = ("--home", tmp_path)
                asked = await asyncio.to_thread(command, capsys, "memory", "reembed", *home)
                assert asked.code == 0 and "3000" in asked.out and "0.13" in asked.out and "--yes" in asked.out
                filling.unconfirmed = Reembedding("m|8|", "m", 3000, 1_000_000, 0.13)
                agreed = await asyncio.to_thread(command, capsys, "memory", "reembed", "--yes", *home)
                assert agreed.code == 0 and filling.unconfirmed is None
                assert "3000" not in (await asyncio.to_thread(command, capsys, "memory", "reembed", *home)).out
                size = 4 * server.services.memory.vectors.embedders.embedders.current().signature.dimension  # type: ignore[union-attr]
                store(tmp_path / "VectorStore", [("别的", b"\1" * size)], {}, {})
                told = await asyncio.to_thread(command, capsys, "memory", "import", tmp_path / "VectorStore", *home)
                assert told.code == 0 and "--yes" in told.out
                by_default = await asyncio.to_thread(command, capsys, "memory", "import", *home)
                assert by_default.out == told.out  # KNOWLEDGEBASE_STORE_PATH
                bad = await asyncio.to_thread(command, capsys, "memory", "import", tmp_path / "config.env", *home)
                assert bad.code == 2 and "config.env" in bad.err

    run(main())
    assert "start the server first" in command(capsys, "memory", "reembed", "--home", tmp_path).err
