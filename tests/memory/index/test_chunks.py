"""Chunks of notes (memory.md 3.3, 10.6 M7 to M10, 11.10; D80)."""

from __future__ import annotations

import random
import re
import tracemalloc
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.memory.index.chunks import (
    MAX_TOKENS,
    OVERLAP_TOKENS,
    Chunk,
    clean,
    cut_text,
    embedded_sha,
    embedded_text,
)
from app.protocol.diary_head import read_note_head
from app.protocol.diary_tags import read_tags

_PARTS = """
今天 我们 去了 公园 看到 很多 花 讨论 人工智能 项目 进度 记忆 服务器 价格 3.14 RX-7900 下雨 电影 计划 明天 上海
"""
PARTS = _PARTS.split()


def line(rng: random.Random, least: int = 8, most: int = 60) -> str:
    text, size = "", rng.randint(least, most)
    while len(text) < size:
        text += rng.choice(PARTS) + rng.choice(["", "", "", "，", "。"])
    return text + rng.choice("。！？")


def note(rng: random.Random, kind: int, most: int) -> list[str]:
    """Lines of prose, of paragraphs, of sections, or paragraphs of many sentences without line ends."""
    lines: list[str] = []
    for _ in range(rng.randint(2, most)):
        if kind == 1 and rng.random() < 0.15:
            lines.append("")
        if kind == 2 and rng.random() < 0.05:
            lines.append("## " + line(rng, 4, 10))
        lines.append(line(rng, 150, 400) if kind == 3 else line(rng))
    return lines


def edited(rng: random.Random, lines: list[str], kind: int) -> list[str]:
    """One line inserted, deleted, replaced, or changed in its middle."""
    lines, place = list(lines), rng.randrange(len(lines))
    if kind == 0:
        lines.insert(place, line(rng))
    elif kind == 1:
        del lines[place]
    elif kind == 2:
        lines[place] = line(rng)
    else:
        cut = rng.randrange(len(lines[place]) + 1)
        lines[place] = lines[place][:cut] + rng.choice(PARTS) + lines[place][cut + rng.randrange(6) :]
    return lines


def pieces(text: str) -> list[str]:
    return [text[chunk.start : chunk.end] for chunk in cut_text(text)]


def tokens(text: str) -> int:
    """M7: 1.5 for an ideograph, 0.25 for another character."""
    wide = len(re.findall(r"[\u2e80-\u9fff\uff00-\uffef]", text))
    return -(-(wide * 6 + len(text) - wide) // 4)


def touched(rng: random.Random, most: int, kinds: int, edits: int) -> Iterator[int]:
    """How many chunks of random notes random edits make new; four edits of each note, each of a kind of its own."""
    for number in range(edits):
        kind = number % 4
        if kind == 0:
            lines = note(rng, rng.randrange(kinds), most)
            before = set(pieces("\n".join(lines)))
        yield len(set(pieces("\n".join(edited(rng, lines, kind)))) - before)


def test_d80_one_changed_line_of_a_diary_note_touches_at_most_two_chunks() -> None:
    """1,000 random edits anywhere in notes of up to 14 lines; of 9,000 others two touched a third chunk."""
    rng = random.Random(81)
    assert sum(size > 2 for size in touched(rng, 14, 3, 1000)) == 0


def test_d80_an_edit_of_a_long_note_moves_no_border_further_on() -> None:
    """1,000 edits of notes of up to 40 lines, a quarter of which are paragraphs of many sentences.

    Only a part that is cut for its length may make a third chunk new: 11 of 8,000 such edits did, here at most one.
    """
    rng = random.Random(3)
    counts = Counter(touched(rng, 40, 4, 1000))
    assert max(counts) <= 3
    assert sum(count for size, count in counts.items() if size > 2) <= 1


def test_d80_without_a_limit_of_length_no_edit_of_prose_touches_more_than_two_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So marks keep the promise by themselves, and its exceptions come from the limit alone."""
    monkeypatch.setattr("app.memory.index.chunks.MAX_TOKENS", 10**9)
    assert max(touched(random.Random(8), 40, 1, 800)) <= 2


def test_chunks_are_of_the_size_that_embedders_read_and_overlap_a_little() -> None:
    rng = random.Random(1)
    sizes: list[int] = []
    overlaps: list[int] = []
    for kind in range(4):
        text = "\n".join(note(rng, kind, 300) + [line(rng) for _ in range(100)])
        chunks = cut_text(text)
        sizes += [chunk.tokens for chunk in chunks]
        overlaps += [tokens(text[chunk.start : chunk.fresh]) for chunk in chunks[1:]]
        assert [chunk.fresh for chunk in chunks] == [0, *(chunk.end for chunk in chunks[:-1])]
        assert chunks[-1].end == len(text)
        assert all(chunk.tokens == tokens(text[chunk.start : chunk.end]) for chunk in chunks)
    assert max(sizes) <= MAX_TOKENS + OVERLAP_TOKENS + 1
    assert 150 <= sorted(sizes)[len(sizes) // 2] <= 400
    assert sum(size < 40 for size in sizes) <= len(sizes) // 50
    assert max(overlaps) <= OVERLAP_TOKENS
    assert 0.04 <= sum(overlaps) / sum(sizes) <= 0.2


def test_m7_tokens_are_estimated() -> None:
    assert cut_text("你好world")[0].tokens == 5


def test_m9_a_short_text_is_one_chunk_and_a_long_one_is_cut_behind_a_sentence() -> None:
    text = "今天天气很好。我们去了公园！看到了很多花。" * 10
    assert pieces(text) == [text]
    longer = text * 8
    assert len(pieces(longer)) >= 4
    assert all(piece.endswith("。") or piece.endswith("！") for piece in pieces(longer))


@pytest.mark.parametrize(
    "text",
    [
        "好" * 200_000,
        "a" * 200_000,
        "字，" * 100_000,
        "\n" * 200_000,
        "一\n" * 100_000,
        "3.14" * 50_000,
        "。" * 200_000,
    ],
    ids=["one sentence", "one word", "no sentence ends", "line ends", "short lines", "one number", "only ends"],
)
def test_m10_endless_texts_are_cut_too_and_lose_nothing(text: str) -> None:
    chunks = cut_text(text)
    assert "".join(text[chunk.fresh : chunk.end] for chunk in chunks) == (text if text.strip() else "")
    assert all(chunk.tokens <= MAX_TOKENS + OVERLAP_TOKENS + 100 for chunk in chunks)
    assert not text.strip() or len(chunks) < 3000


def test_numbers_are_never_cut() -> None:
    numbers = [f"{n}.{n * 7 % 1000}" for n in range(1000, 4000)]
    text = "，".join(numbers)
    for chunk in cut_text(text):
        for place in {chunk.fresh, chunk.end} - {0, len(text)}:
            assert not re.search(r"[0-9.]$", text[:place]) or not re.match(r"[0-9.]", text[place:])


def test_headings_and_paragraphs_are_cut_before_lines_and_sentences() -> None:
    rng = random.Random(5)
    sections = ["## 标题" + str(n) + "\n" + "\n".join(line(rng) for _ in range(7)) for n in range(40)]
    text = "\n".join(sections)
    borders = [chunk.fresh for chunk in cut_text(text)[1:]]
    at_headings = [place for place in borders if text.startswith("## ", place)]
    assert len(at_headings) > 0.6 * len(borders)
    assert all(text[place - 1] == "\n" for place in borders)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=st.sampled_from("今好。！\n# a.3,\u3000😀\r"), max_size=3000))
def test_any_text_is_kept_whole(text: str) -> None:
    chunks = cut_text(text)
    if not text.strip():
        assert chunks == []
        return
    assert "".join(text[chunk.fresh : chunk.end] for chunk in chunks) == text
    assert all(0 <= chunk.start <= chunk.fresh < chunk.end for chunk in chunks)


def test_d80_the_embedded_text_has_what_the_note_says_of_itself_and_nothing_else() -> None:
    """Day, author, title, tags; not notebook and file name. First line and tag line do not come twice."""
    text = "[2025-11-27] - 小克\n# 火锅 🎉\n今天 吃了\n\n火锅。✨\nTag: 吃, 朋友"
    head, tags = read_note_head(text, "x.txt"), read_tags(text)
    (chunk,) = cut_text(text)
    assert embedded_text(head, tags, text, chunk) == "2025-11-27 | 小克 | 吃, 朋友\n# 火锅 今天 吃了 火锅。"
    assert text[chunk.start : chunk.end] == text  # what is injected keeps its lines and its emoji


def test_d80_a_change_of_the_first_line_of_the_body_touches_that_line_s_chunk_only() -> None:
    """It is the title of a note without a heading, but not part of what the other chunks embed."""
    rng = random.Random(5)
    body = [line(rng) for _ in range(60)]

    def embedded(*lines: str) -> set[str]:
        text = "\n".join(("[2025-11-27] - 小克", *lines, *body, "Tag: 吃"))
        head = read_note_head(text, "x.txt")
        return {embedded_text(head, read_tags(text), text, chunk) for chunk in cut_text(text)}

    before = embedded("今天吃了火锅。")
    assert len(before) > 3
    assert len(embedded("昨天吃了烤鸭。") - before) == 1
    assert all("火锅" in text for text in embedded("# 火锅", "今天吃了。"))  # a heading is what the note says of itself


def test_the_title_is_embedded_with_chunks_that_do_not_have_it_themselves() -> None:
    text = "# 装修笔记\n" + "".join(f"第{number}天，工人来量了厨房的尺寸，说柜子要改。\n" for number in range(60))
    first, *others = cut_text(text)
    head = read_note_head(text, "x.txt")
    assert embedded_text(head, (), text, first).startswith("# 装修笔记 第0天")
    assert all(embedded_text(head, (), text, other).startswith("装修笔记\n") for other in others)


def test_a_note_that_is_a_head_only_is_embedded_by_it() -> None:
    text = "[2025-11-27] - 小克\nTag: 空"
    (chunk,) = cut_text(text)
    assert embedded_text(read_note_head(text, "x"), ("空",), text, chunk) == "2025-11-27 | 小克 | 空"


def test_hashes_are_of_the_embedded_text() -> None:
    assert embedded_sha("a") == bytes.fromhex("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")
    assert embedded_sha("\ud800")  # never raises
    assert clean("a\t\n 😀❤️ b") == "a b"
    assert Chunk(0, 0, 1, 1) == Chunk(0, 0, 1, 1)


@pytest.mark.parametrize("text", ["公园" + 100_000 * "\n", "公园" + 50_000 * " \t\n", 4_000 * "a\n"])
def test_a_note_of_nothing_but_short_lines_takes_little_memory(text: str) -> None:
    """Eight MiB of line ends took 1.4 GB."""
    tracemalloc.start()
    try:
        cut_text(text)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(text)
    finally:
        tracemalloc.stop()
