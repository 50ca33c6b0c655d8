"""The index of a running server: tools' writes at once, its routes, the commands beside it (D80, D88; 11.3)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.extend import DiaryWritten, NotesChanged
from app.home.lock import own_home
from app.memory.index.memory_index import INDEX_FILE, MemoryIndex
from app.memory.index.words import query_words
from app.services import Services
from tests.cli.commands import command
from tests.server import call_text, run, running
from tests.waiting import until

UPSTREAM = "http://127.0.0.1:9"
SLOW = ("KNOWLEDGEBASE_BATCH_WINDOW_MS=600000",)
"""Notifications of the system come too late to help."""


def index_of(services: Services) -> MemoryIndex:
    index = services.memory.index.index
    assert index is not None
    return index


async def found(services: Services, question: str) -> list[str]:
    index = index_of(services)
    hits = await index.lexical(query_words(question), None, 10)
    return [record.path for record in (await index.chunks([chunk for chunk, _ in hits])).values()]


def test_d80_a_note_that_a_tool_writes_is_searchable_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=SLOW) as server:
            await until(lambda: index_of(server.services).database.is_open)
            note = {"maid": "小克", "Date": "2025-11-27", "Content": "买了显卡\nTag: 显卡"}
            call = call_text("DailyNote", command="create", **note)
            answer = await server.client.post(
                "/v1/human/tool", content=call.encode(), headers={"Content-Type": "text/plain; charset=utf-8"}
            )
            assert answer.status_code == 200, answer.text
            await until(lambda: "小克" in index_of(server.services).notebooks())
            assert len(await found(server.services, "显卡")) == 1

    run(main())


def test_d80_what_the_server_changes_itself_is_looked_at_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=SLOW) as server:
            await until(lambda: index_of(server.services).database.is_open)
            folder = tmp_path / "dailynote" / "公共"
            folder.mkdir()
            (folder / "a.txt").write_text("谈到火锅")
            server.services.events.publish(NotesChanged(("公共/a.txt",)))
            await until(lambda: "公共" in index_of(server.services).notebooks())
            (folder / "b.txt").write_text("谈到冰淇淋")
            server.services.events.publish(DiaryWritten("t", "公共", "2025-11-27", str(folder / "b.txt"), ""))
            await until(lambda: index_of(server.services).notebooks()["公共"].notes == 2)
            assert await found(server.services, "冰淇淋") == ["公共/b.txt"]

    run(main())


def test_a_note_that_a_person_saves_is_found_after_the_window(tmp_path: Path) -> None:
    """3.2: the watcher; no tool and no event says anything."""

    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=("KNOWLEDGEBASE_BATCH_WINDOW_MS=20",)) as server:
            await until(lambda: index_of(server.services).database.is_open)
            (tmp_path / "dailynote" / "手写").mkdir()
            number = 0
            while "手写" not in index_of(server.services).notebooks():  # until the system has begun to notify
                number += 1
                (tmp_path / "dailynote" / "手写" / "a.txt").write_text(f"手写的日记 {number}")
                await asyncio.sleep(0.1)
                assert number < 300
            (tmp_path / "dailynote" / "手写" / "a.txt").unlink()
            await until(lambda: "手写" not in index_of(server.services).notebooks())

    run(main())


def test_status_check_and_rebuild_over_http(tmp_path: Path) -> None:
    folder = tmp_path / "dailynote" / "小克"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("[2025-11-27] - 小克\n火锅\nTag: 吃")

    async def main() -> None:
        async with running(tmp_path, UPSTREAM) as server:
            await until(lambda: index_of(server.services).notebooks())
            status = (await server.client.get("/v1/memory/status")).json()
            assert status["notes"] == status["chunks"] == 1
            assert status["notebooks"] == {"小克": {"notes": 1, "chunks": 1}}
            assert (status["trouble"], status["unreadable"]) == ("", {})
            (folder / "b.txt").write_text("刚来的")
            checked = (await server.client.post("/v1/memory/check", json={})).json()
            assert (checked["faults"], checked["notes"]) == ([], 2)
            await index_of(server.services).database.write(lambda c: c.execute("DELETE FROM words WHERE rowid = 1"))
            looked = (await server.client.post("/v1/memory/check", json={"repair": False})).json()
            assert looked["faults"] == ["1 chunks without words"]
            assert not looked["repaired"]
            healed = (await server.client.post("/v1/memory/check", json={"repair": True})).json()
            assert healed["repaired"]
            assert (await server.client.post("/v1/memory/check", json={})).json()["faults"] == []
            assert (await server.client.post("/v1/memory/rebuild")).json()["notes"] == 2
            assert (await server.client.post("/v1/memory/check", json={"repair": 1})).status_code == 400
            assert (await server.client.post("/v1/memory/check", content=b"{")).status_code == 400

    run(main())


def test_memory_false_has_no_index(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=("Memory=false",)) as server:
            assert server.services.memory.index.index is None
            assert (await server.client.get("/v1/memory/status")).status_code == 404
            assert not (tmp_path / INDEX_FILE).exists()

    run(main())


def test_d88_who_does_not_own_the_home_writes_no_index(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM) as server:
            other = Services(server.services.config, "k", owns_home=False)
            await other.memory.index.start()
            assert other.memory.index.index is None
            await other.memory.index.stop()
            await other.side_requests.aclose()

    run(main())


def test_commands_work_alone_and_through_the_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "dailynote" / "小克"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("火锅")
    (tmp_path / "config.env").write_text("Key=k\n")
    for words, said in ((("check",), "the index is well"), (("rebuild",), "notes: 1"), (("status",), "notes: 1")):
        told = command(capsys, "memory", *words, "--home", tmp_path)
        assert (told.code, told.err) == (0, "")
        assert said in told.out

    async def main() -> None:
        async with running(tmp_path, UPSTREAM) as server:
            with own_home(tmp_path, "serve") as ownership:
                ownership.tell(server.url)
                for words in (("check",), ("check", "--no-repair"), ("rebuild",), ("status",), ("status", "--json")):
                    told = await asyncio.to_thread(command, capsys, "memory", *words, "--home", tmp_path)
                    assert (told.code, told.err) == (0, "")
                    assert "1" in told.out

    run(main())
