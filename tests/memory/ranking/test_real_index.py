"""The retriever over real files, the real index and real vectors (hashing)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from app.memory.enhance.chain_search import ChainSearch
from app.memory.enhance.chains import StageFound, walk_chain
from app.memory.enhance.rag_tags import RagTags
from app.memory.enhance.semantic_groups import SemanticGroups
from app.memory.enhance.tag_memo import TagMemo
from app.memory.ranking.gate import Gates
from app.memory.ranking.options import RankingOptions
from app.memory.ranking.pipeline import Retriever
from app.memory.ranking.requests import DateRange, RecallQuery, Retrieval
from tests.memory.vectors.installation import Installed, installed

NOW = datetime(2025, 11, 27, 15, 30, tzinfo=UTC)
NOTES: dict[str, str | None] = {
    "小克/2025-11-20.txt": "[2025-11-20] - 小克\n和老王去河边钓鱼，钓到三条鲫鱼。\nTag: 钓鱼, 老王",
    "小克/2025-11-21.txt": "[2025-11-21] - 小克\n老王的女儿考上了大学。\nTag: 老王",
    "小克/2025-03-02.txt": "[2025-03-02] - 小克\n整理书架，扔掉旧杂志。\nTag: 家务",
    "反思簇/逻辑.txt": "推理之前先列出前提，再检查漏洞。",
}


async def write(parts: Installed, notes: Mapping[str, str | None]) -> None:
    """Put notes into the folder (None deletes), and index them."""
    for name, text in notes.items():
        path = parts.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")
    await parts.sync.caught_up()


def made(parts: Installed, folder: Path) -> tuple[Retriever, SemanticGroups]:
    def options() -> RankingOptions:
        return RankingOptions()

    groups = SemanticGroups(folder, parts.sets, lambda: 0.0)
    gates = Gates(parts.index, parts.sets, RagTags(folder, lambda: 0.0), options)
    tags = TagMemo(parts.index, parts.sets, options)
    return Retriever(parts.index, parts.sets, options=options, gates=gates, groups=groups, tags=tags), groups


def test_what_is_in_files_is_found_with_all_modifiers_and_gone_when_they_are(tmp_path: Path) -> None:
    (tmp_path / "semantic_groups.json").write_text('{"groups": {"渔": {"words": ["钓鱼", "鲫鱼"]}}}', encoding="utf-8")

    async def main() -> None:
        async with installed(tmp_path) as parts:
            retriever, _ = made(parts, tmp_path)
            query = RecallQuery(
                "上周钓鱼钓到几条鲫鱼", "", NOW, ranges=(DateRange(date(2025, 11, 17), date(2025, 11, 23)),)
            )
            wanted = Retrieval(("小克",), 2, 10_000, time=True, tags=True, group=True, associate=True, expand=True)
            assert (await retriever.retrieve(query, wanted)).hits == ()
            await write(parts, NOTES)
            words = await retriever.retrieve(query, wanted)
            assert words.lexical_only
            assert words.hits[0].chunk.path == "小克/2025-11-20.txt"
            await parts.fill()
            found = await retriever.retrieve(query, wanted)
            assert not found.lexical_only
            assert found.hits[0].chunk.path == "小克/2025-11-20.txt"
            assert found.hits[0].text == NOTES["小克/2025-11-20.txt"]
            assert [group.name for group in found.groups] == ["渔"]
            assert found.groups[0].strength == 1.0
            assert {"钓鱼", "老王"} <= set(found.tags)
            assert len({hit.chunk.note_id for hit in found.hits}) == len(found.hits) == 3
            [opened] = await retriever.gate(query, ["小克"])
            assert opened.by in ("chunk", "centroid", "name")
            await write(parts, {"小克/2025-11-20.txt": None})
            gone = await retriever.retrieve(query, wanted)
            assert "小克/2025-11-20.txt" not in {hit.chunk.path for hit in gone.hits}

    asyncio.run(main())


def test_a_chain_goes_through_notebooks_and_names_those_that_are_not_there(tmp_path: Path) -> None:
    """5.5: degraded stages."""

    async def main() -> None:
        async with installed(tmp_path) as parts:
            await write(parts, NOTES)
            await parts.fill()
            stage = ChainSearch(parts.index, parts.sets)
            question = "这个推理有什么漏洞"
            vector = await parts.sets.embed_query(question)

            async def search(thought: object, cluster: str, k: int) -> StageFound:
                return await stage.stage(question, thought, cluster, k)  # type: ignore[arg-type]  # it is a vector

            stages = await walk_chain(["反思簇", "无簇"], [1, 1], vector, None, search)
            assert [one.degraded for one in stages] == [False, True]
            assert stages[0].hits[0].text == NOTES["反思簇/逻辑.txt"]
            assert stages[1].fault == "没有日记本 无簇 / there is no notebook 无簇"
            by_words = await stage.stage(question, None, "反思簇", 1)
            assert by_words.hits[0].text == stages[0].hits[0].text

    asyncio.run(main())
