"""What a diary file says about itself (memory.md 1.2, 10.8 F2 and F3)."""

from __future__ import annotations

from datetime import date

import pytest

from app.protocol.diary_head import NoteHead, day_in, read_note_head

NOV = date(2025, 11, 27)


@pytest.mark.parametrize(
    ("line", "day", "author", "is_header"),
    [
        pytest.param("[2025-11-27] - 小克", NOV, "小克", True, id="F2"),
        pytest.param("[2025.04.25] - Your Maid", date(2025, 4, 25), "Your Maid", True, id="F3"),
        pytest.param("2025.11.27-小克", NOV, "小克", True, id="older form"),
        pytest.param("[2025-11-27] - ", NOV, "", True, id="no author"),
        pytest.param("【2025年11月27日】－小克", NOV, "小克", True, id="full width"),
        pytest.param("2025-11-27", NOV, "", True, id="the date alone"),
        pytest.param("2025-11-27 今天去了河边", NOV, "", False, id="date and text"),
        pytest.param("2025-11-27 - " + "很长" * 60, NOV, "", False, id="no author is that long"),
        pytest.param("# 日记 2025/11/27 晴", NOV, "", False, id="anywhere in the line"),
        pytest.param("[2025-13-45] - x", None, "", False, id="no day"),
        pytest.param("[todo] - x", None, "", False, id="brackets without a day"),
        pytest.param("号码 12025-11-27", None, "", False, id="part of a number"),
        pytest.param("2025-11-27" + "x" * 1000, None, "", False, id="too long for a header"),
    ],
)
def test_the_first_line_tells_day_and_author(line: str, day: date | None, author: str, is_header: bool) -> None:
    text = line + "\n正文\nTag: a"
    head = read_note_head(text, "x.txt")
    assert (head.day, head.author) == (day, author)
    assert head.body_start == (len(line) + 1 if is_header else 0)
    assert text[head.tag_line_start :] == "Tag: a"


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2025-11-27-15_30_01.txt", NOV),
        ("2025.11.27.2.txt", NOV),
        ("2025-11-27T07-30-01.123Z.md", NOV),
        ("20251127.md", NOV),
        ("[board][t][a][2025-11-27T01-02-03.004Z][1732-ab].md", NOV),
        ("notes.md", None),
        ("9999-99-99.txt", None),
    ],
)
def test_else_the_file_name_tells_the_day(name: str, day: date | None) -> None:
    assert read_note_head("正文", name).day == day


def test_the_first_line_beats_the_file_name() -> None:
    assert read_note_head("[2025-11-27] - x\ny", "2024-01-01.txt").day == NOV


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("[2025-11-27] - x\n\n  散步 的一天  \n更多", "散步 的一天"),
        ("[2025-11-27] - x\n前言\n## 散步 ##\n更多", "散步"),
        ("[2025-11-27] - x\nTag: a", ""),
        ("字" * 100, "字" * 60),
        ("#标签不是标题\n", "#标签不是标题"),
        ("", ""),
    ],
)
def test_the_title_is_the_first_heading_else_the_first_line(text: str, title: str) -> None:
    assert read_note_head(text, "x.txt").title == title


def test_a_tag_line_in_the_middle_is_body() -> None:
    text = "Tag: a\nbody"
    assert read_note_head(text, "x.txt") == NoteHead(None, "", "Tag: a", 0, len(text))


def test_windows_line_ends_and_byte_order_marks_are_no_part_of_the_head() -> None:
    text = "\ufeff[2025-11-27] - 小克\r\n正文\r\nTag: a\r\n"
    head = read_note_head(text, "x.txt")
    assert (head.day, head.author, head.title) == (NOV, "小克", "正文")
    assert text[head.body_start : head.tag_line_start] == "正文\r\n"


def test_the_first_possible_day_of_a_text_counts() -> None:
    assert day_in("2025-99-99 2025-11-27") == NOV
