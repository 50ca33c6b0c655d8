"""Search by words (memory.md 8.3, 9.3, 11.7)."""

from __future__ import annotations

import math
import random
from datetime import date

import pytest

from app.memory.index import lexical
from app.memory.index.words import document_words, query_words
from tests.memory.index.conftest import Home, found
from tests.server import run

_TOPICS = "火锅 显卡 量子 旅行 咖啡 音乐 天气 电影 编程 猫咪 考试 搬家 跑步 医院 股票"
TOPICS = _TOPICS.split()


def filled(home: Home, notes: int = 80) -> None:
    rng = random.Random(2)
    for number in range(notes):
        body = "，".join(rng.choice(TOPICS) + str(rng.randrange(30)) for _ in range(rng.randint(3, 40)))
        tags = ", ".join(rng.sample(TOPICS, 2))
        home.write(f"本{number % 4}/{number}.txt", f"[2025-11-{number % 28 + 1:02d}] - 小克\n今天{body}\nTag: {tags}")


@pytest.mark.parametrize("tags_only", [False, True])
def test_scores_are_those_of_bm25(home: Home, tags_only: bool) -> None:
    """Against the formula, over body, tags and names with their weights; a filter changes no score."""
    filled(home)

    async def main() -> None:
        async with home.synced() as (index, _):
            words = query_words("火锅7 显卡 跑步")
            rows = await index.database.read(
                lambda c: {row[0]: row[1:] for row in c.execute("SELECT rowid, body, tags, names, place FROM words")}
            )
            columns = {chunk: [text.split() for text in row] for chunk, row in rows.items()}
            mean = sum(sum(map(len, row)) for row in columns.values()) / len(columns)
            expected: dict[int, float] = {}
            for word in words:
                where = (1,) if tags_only else (0, 1, 2)
                having = [chunk for chunk, row in columns.items() if any(word in row[place] for place in where)]
                weight = max(math.log((len(columns) - len(having) + 0.5) / (len(having) + 0.5)), 1e-6)
                for chunk in having:
                    row = columns[chunk]
                    count = sum(row[place].count(word) * (1.0, 2.0, 1.5)[place] for place in where)
                    norm = 1.2 * (0.25 + 0.75 * sum(map(len, row)) / mean)
                    expected[chunk] = expected.get(chunk, 0) + weight * count * 2.2 / (count + norm)
            hits = await index.lexical(words, None, 1000, tags_only=tags_only)
            assert dict(hits) == pytest.approx(expected)
            assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
            if not tags_only:
                assert await index.lexical_scores(words, list(rows)) == pytest.approx(expected)
                for names in (["本1", "没有"], ["本1", "本3"], ["本3", "本0", "本1"], ["本0", "本1", "本2", "本3"]):
                    some = await index.lexical(words, names, 1000)
                    there = {f"n{book.id}" for name, book in index.notebooks().items() if name in names}
                    assert dict(some) == pytest.approx({c: s for c, s in expected.items() if rows[c][3] in there})

    run(main())


def test_where_common_words_are_left_to_the_scores_the_best_are_the_same(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(home)

    async def main() -> None:
        async with home.synced() as (index, _):
            words = query_words("今天 火锅7 显卡3 量子 咖啡 猫咪 天气")
            best = await index.lexical(words, None, 10)
            monkeypatch.setattr(lexical, "MATCHES", 15)
            quick = await index.lexical(words, None, 10)
            assert [score for _, score in quick] == pytest.approx([score for _, score in best], rel=0.25)
            scores = await index.lexical_scores(words, [chunk for chunk, _ in quick])
            assert dict(quick) == pytest.approx(scores)

    run(main())


def test_names_are_matched_lexically(home: Home) -> None:
    """D80: notebook, file name and author are no part of the embedded text; words find them."""
    home.write("量子物理的知识/薛定谔.md", "[2025-11-27] - 莱恩\n一只盒子。")

    async def main() -> None:
        async with home.synced() as (index, _):
            for question in ("量子物理", "薛定谔", "莱恩", "2025-11-27"):
                assert await found(index, question) == ["量子物理的知识/薛定谔.md"]
            (chunk,) = [chunk for chunk, _ in await index.lexical(["盒子"], None, 3)]
            text = (await index.embedded_texts([chunk]))[chunk]
            assert "量子" not in text
            assert "薛定谔" not in text

    run(main())


def test_days_and_notes_lead_to_chunks(home: Home) -> None:
    filled(home, 30)

    async def main() -> None:
        async with home.synced() as (index, _):
            some = await index.in_days(date(2025, 11, 3), date(2025, 11, 5), None, 100)
            records = await index.chunks(some)
            assert [str(records[chunk].day) for chunk in some] == ["2025-11-05", "2025-11-04", "2025-11-03"]
            assert await index.in_days(date(2025, 11, 3), date(2025, 11, 5), ["本2"], 100) == [
                chunk for chunk in some if records[chunk].notebook == "本2"
            ]
            assert await index.in_days(date(2025, 11, 3), date(2025, 11, 5), None, 2) == some[:2]
            notes = [records[chunk].note_id for chunk in some]
            assert await index.chunks_of_notes(notes) == {record.note_id: [record.id] for record in records.values()}
            assert await index.chunks([10**9, some[0]]) == {some[0]: records[some[0]]}
            assert await index.lexical([], None, 5) == []
            assert await index.lexical(document_words("火锅"), [], 5) == []
            assert await index.lexical(document_words("火锅"), None, 0) == []

    run(main())
