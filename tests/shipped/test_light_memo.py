"""LightMemo in a running server: arguments, filters, frames, negative answers (memory.md 6.1, 6.2; 11.23)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.errors import VcpError
from tests.server import Running, call_text, run, running
from tests.shipped.modules import modules_of
from tests.waiting import until

PLUGIN = Path(__file__).resolve().parents[2] / "Plugin" / "LightMemo"

NOTES = {
    "小克/2025-11-20-a.txt": "[2025-11-20] - 小克\n和主人去了海边的咖啡馆，点了拿铁。\nTag: 咖啡, 海边",
    "小克/2025-10-01-b.txt": "[2025-10-01] - 小克\n国庆在家煮咖啡，下雨。\nTag: 咖啡, 家",
    "小克/2025-09-01-c.txt": "[2025-09-01] - 小绝\n小绝写在这里的咖啡笔记。\nTag: 咖啡",
    "公共/2025-11-21-d.txt": "[2025-11-21] - 小克\n公共区的咖啡机坏了。\nTag: 咖啡, 维修",
    "小克的知识/e.txt": "[2025-11-22] - 小克\n咖啡因的半衰期约五小时。\nTag: 知识",
    "已整理小克/f.txt": "[2025-01-01] - 小克\n旧咖啡。\nTag: 旧",
    "小克簇/g.txt": "[2025-01-01] - 小克\n咖啡思维。\nTag: 簇",
    "MusicDiary/h.txt": "[2025-11-23] - 小克\n咖啡馆里的爵士乐。\nTag: 音乐",
    "密/i.txt": "[2025-11-24] - 小绝\n秘密咖啡。\nTag: 密",
}


@pytest.fixture(scope="module")
def questions() -> Iterator[ModuleType]:
    with modules_of("LightMemo") as modules:
        yield modules("questions")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *((word, True) for word in ("true", "1", "yes", "on", "是", "开启", True)),
        *((word, False) for word in ("false", "False", "0", "no", "off", "否", "", None, False, "maybe", [])),
    ],
)
def test_yes_and_no_as_text_mean_what_they_say(questions: ModuleType, word: Any, meant: bool) -> None:
    """6.1: the text "false" is not true, neither for the whole search nor for the reranker."""
    read = questions.read_question({"maid": "小克", "query": "q", "search_all_knowledge_bases": word, "rerank": word})
    assert (read.scoped, read.authors) == ((False, ()) if meant else (True, ("小克",)))
    assert (read.rerank is not None) is meant


def test_marks_in_the_question_are_filters_and_not_searched_for(questions: ModuleType) -> None:
    query = "[2025-11-01~2025.11.30] 咖啡 [2024-02] [2025-02-30] [知识库:公共, 小克|A][音乐检索]"
    read = questions.read_question({"maid": "[公共]小克", "query": query, "folder": "甲，乙|丙", "k": "999"})
    assert read.query == "咖啡   [2025-02-30]"
    assert read.shown == query
    assert read.ranges == (
        (date(2025, 11, 1), date(2025, 11, 30)),
        (date(2024, 2, 1), date(2024, 2, 29)),
    )
    assert read.folders == ("公共", "甲", "乙", "丙", "公共", "小克", "A", "MusicDiary")
    assert (read.maid, read.authors, read.k, read.tag_boost, read.words) == ("小克", ("小克",), 50, 0.5, True)
    assert questions.read_question({"maid": "a", "query": "q", "rerank": "0.7", "BM25": "off"}).rerank == 0.7
    span = questions.read_question({"maid": "a", "query": "q", "date_from": "2025-11", "date_to": "2025"})
    assert span.ranges == ((date(2025, 11, 1), date(2025, 12, 31)),)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": "q"},
        {"maid": "a", "query": " "},
        {"maid": "a", "query": ["x"]},
        {"maid": "a", "query": "q", "date_from": "soon"},
    ],
)
def test_what_is_missing_or_no_date_is_named(questions: ModuleType, arguments: dict[str, Any]) -> None:
    with pytest.raises(VcpError):
        questions.read_question(arguments)


def with_notes(home: Path, test: Callable[[Running], Awaitable[None]], *config: str) -> None:
    for name, text in NOTES.items():
        path = home / "dailynote" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (home / "notebook_permissions.json").write_text('{"密": "private"}', "utf-8")

    async def main() -> None:
        async with running(home, "http://127.0.0.1:9", config=config or ("MemoryEmbedder=off",)) as server:

            def known() -> bool:
                index = server.services.memory.index.index
                return index is not None and sum(book.notes for book in index.notebooks().values()) >= len(NOTES) - 3

            await until(known)
            await test(server)

    run(main())


async def ask(server: Running, **arguments: str) -> str:
    said = call_text("LightMemo", **arguments).encode()
    answer = await server.client.post("/v1/human/tool", content=said, headers={"Content-Type": "text/plain"})
    value = answer.json()
    return value if isinstance(value, str) else str(value)


def sources(answer: str) -> list[str]:
    return [
        line.partition("来源: ")[2].partition(",")[0]
        for line in answer.replace("\\n", "\n").splitlines()
        if "(来源: " in line
    ]


def test_a_model_searches_its_notes_and_gets_the_frame_of_6_1(tmp_path: Path) -> None:
    async def test(server: Running) -> None:
        answer = await ask(server, maid="小克", query="咖啡馆", k="1")
        head, _, rest = answer.replace("\\n", "\n").partition("\n--- (来源: 小克, 相关性: ")
        assert '\n[--- LightMemo 轻量回忆 ---]\n[查询内容: "咖啡馆"]\n[搜索范围: ' in head
        assert head.endswith("\n\n[找到 1 条相关记忆片段:]")
        score, _, text = rest.partition("%(BM25))\n")
        assert 0 < float(score) <= 100
        assert "和主人去了海边的咖啡馆" in text
        assert "\n\n[--- 回忆结束 ---]\n" in text
        # the author of the note counts, not its first chunk; 小绝's note in the same notebook is not shown
        found = await ask(server, maid="小克", query="咖啡", k="20")
        assert set(sources(found)) == {"小克", "小克的知识"}
        assert "小绝写在这里" not in found

    with_notes(tmp_path, test)


def test_fragments_found_by_meaning_and_by_words_are_called_so(tmp_path: Path) -> None:
    """6.1: 混合 is both, 向量 meaning alone: no hard filter of words."""

    async def test(server: Running) -> None:
        await until(lambda: server.services.memory.vectors.status()["ready"] is True)
        assert "(混合))" in await ask(server, maid="小克", query="海边的咖啡馆")
        assert "(向量))" in await ask(server, maid="小克", query="海边的咖啡馆", BM25="关闭", k="20")

    with_notes(tmp_path, test, "MemoryEmbedder=hashing")


def test_folders_authors_tags_and_days_narrow_the_search(tmp_path: Path) -> None:
    """6.2: folder, author, tags_all, tags_any, date_from, date_to; the H forms of 6.1."""

    async def test(server: Running) -> None:
        async def found(**arguments: str) -> set[str]:
            return set(sources(await ask(server, maid="小克", query="咖啡", k="20", **arguments)))

        everywhere = {"小克", "公共", "小克的知识"}
        assert await found(search_all_knowledge_bases="是") == everywhere  # not 密, not MusicDiary, not 已整理, not 簇
        assert await found(search_all_knowledge_bases="false") == {"小克", "小克的知识"}
        assert await found(folder="公共日记本") == {"公共"}
        assert await found(folder="公共，MusicDiary") == {"公共", "MusicDiary"}
        assert "没有日记本" in await ask(server, maid="小克", query="咖啡", folder="不存在")
        assert "没有日记本" in await ask(server, maid="小克", query="咖啡", folder="密")  # 11.23: private to another
        assert "小绝写在这里" in await ask(server, maid="小克", query="咖啡", folder="小克", author="小绝")
        repair = await ask(server, maid="小克", query="咖啡", search_all_knowledge_bases="1", tags_all="咖啡,维修")
        assert sources(repair) == ["公共"]
        tags = await ask(server, maid="小克", query="咖啡", search_all_knowledge_bases="1", tags_any="海边、知识")
        assert sorted(sources(tags)) == ["小克", "小克的知识"]
        days = await ask(server, maid="小克", query="咖啡", folder="小克", date_from="2025-10", date_to="2025-10-31")
        assert sources(days) == ["小克"]
        assert "国庆在家" in days
        assert "国庆在家" in await ask(server, maid="小克", query="[2025-10-01] 咖啡")
        assert sources(await ask(server, maid="小克", query="[音乐检索] 爵士")) == ["MusicDiary"]
        assert sources(await ask(server, maid="[公共]小克", query="咖啡", aimemo="true", engine="x")) == ["公共"]

    with_notes(tmp_path, test)


def test_negative_answers_say_whether_the_name_or_the_question_is_unknown(tmp_path: Path) -> None:
    async def test(server: Running) -> None:
        unknown = await ask(server, maid="小新", query="咖啡")
        assert "没有找到署名为" in unknown
        assert "小新" in unknown
        nothing = await ask(server, maid="小克", query="zzzqqq")
        assert "没有找到包含相关关键词的记忆片段。" in nothing
        assert "zzzqqq" in nothing

    with_notes(tmp_path, test)


def test_without_memory_the_tool_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([say("x")]) as up,
            running(tmp_path, up.base_url, config=("Memory=false",)) as server,
        ):
            assert "Memory=false" in await ask(server, maid="小克", query="咖啡")

    run(main())


def test_notes_near_to_a_note_are_found_by_words_while_there_are_no_vectors(tmp_path: Path) -> None:
    """1.7: ``associate`` and associative discovery stand on the same index."""

    async def test(server: Running) -> None:
        memory = server.services.memory.for_plugins
        assert "小克" in memory.notebooks()
        near = await memory.neighbours(["小克/2025-11-20-a.txt"], k=3)
        assert near[0].path != "小克/2025-11-20-a.txt"
        assert len({one.path for one in near}) == len(near) == 3
        assert all(0 <= one.score <= 1.15 for one in near)
        assert near == sorted(near, key=lambda one: -one.score)
        assert [one.notebook for one in await memory.neighbours(["小克/2025-11-20-a.txt"], notebooks=["公共"])] == [
            "公共"
        ]
        assert await memory.neighbours(["gone/x.txt"]) == []
        assert await memory.neighbours(["小克/2025-11-20-a.txt"], least=5.0) == []

    with_notes(tmp_path, test)
