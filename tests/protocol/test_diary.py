"""The diary grammar (vcp-core 4.11; memory.md 1.2 to 1.5, vectors 10.5)."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.diary import (
    MAX_NAME_BYTES,
    DiaryBlock,
    diary_text,
    file_name,
    find_diary_blocks,
    heading,
    normalise_date,
    normalise_tags,
    safe_folder,
    split_author,
    split_tag_line,
)

MOMENT = datetime(2025, 11, 27, 9, 5, 7)


def block(maid: str = "Nova", date: str = "2025.11.27", content: str = "Walked.\nTag: walk") -> str:
    return f"<<<DailyNoteStart>>>\nMaid: {maid}\nDate: {date}\nContent: {content}\n<<<DailyNoteEnd>>>"


# --- blocks ----------------------------------------------------------------------------------------------------------


def test_a_block_is_read_from_the_text_around_it() -> None:
    found = find_diary_blocks(f"Noted!\n{block()}\nBye")
    assert found == [DiaryBlock("Nova", "2025.11.27", "Walked.\nTag: walk")]


def test_every_block_of_a_reply_counts() -> None:
    text = block(content="one") + " and " + block(maid="[公共]小克", content="two")
    assert [(found.maid, found.content) for found in find_diary_blocks(text)] == [
        ("Nova", "one"),
        ("[公共]小克", "two"),
    ]


@pytest.mark.parametrize("field", ["maid", "date", "content"])
@pytest.mark.parametrize("blank", ["", "  ", "\u3000"])
def test_a_block_with_a_blank_field_is_not_a_note(field: str, blank: str) -> None:
    assert find_diary_blocks(block(**{field: blank})) == []


def test_a_blank_field_does_not_borrow_the_next_line() -> None:
    assert find_diary_blocks("<<<DailyNoteStart>>>Maid:\nDate: d\nContent: c<<<DailyNoteEnd>>>") == []


@pytest.mark.parametrize("missing", ["Maid: Nova\n", "Date: 2025.11.27\n", "Content: "])
def test_a_block_without_a_field_is_not_a_note(missing: str) -> None:
    assert find_diary_blocks(block().replace(missing, "")) == []


def test_a_faulty_block_does_not_hide_the_next_one() -> None:
    assert len(find_diary_blocks(block(maid="") + block())) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<<<DailyNoteEnd>>>" + "<<<DailyNoteStart>>>",
        block().replace("<<<DailyNoteEnd>>>", ""),
        block().replace("<<<DailyNoteStart>>>", "<<<dailynotestart>>>"),
        block().replace("<<<DailyNoteEnd>>>", "<<DailyNoteEnd>>"),
    ],
)
def test_text_without_both_exact_markers_holds_no_note(text: str) -> None:
    assert find_diary_blocks(text) == []


def test_content_runs_to_the_end_of_the_block() -> None:
    content = "first\n\nMaid: someone else\nDate: never\nContent: quoted"
    assert find_diary_blocks(block(content=content))[0] == DiaryBlock("Nova", "2025.11.27", content)


def test_crlf_leaves_no_stray_return_in_names() -> None:
    found = find_diary_blocks(block().replace("\n", "\r\n"))[0]
    assert (found.maid, found.date) == ("Nova", "2025.11.27")


def test_full_width_colons_and_indents_are_taken() -> None:
    text = "<<<DailyNoteStart>>>\n  Maid：小克\n\tDate：2025.1.2\n Content：好\n<<<DailyNoteEnd>>>"
    assert find_diary_blocks(text) == [DiaryBlock("小克", "2025.1.2", "好")]


def test_a_block_inside_an_ignored_range_is_not_a_note() -> None:
    text = f"<think>{block(content='secret')}</think>{block(content='open')}"
    hidden = (0, text.index("</think>"))
    assert [found.content for found in find_diary_blocks(text, [hidden])] == ["open"]


def test_an_end_marker_inside_an_ignored_range_does_not_close_the_block() -> None:
    thought = "<think><<<DailyNoteEnd>>></think>"
    text = block(content=f"before {thought} after")
    start = text.index(thought)
    assert find_diary_blocks(text, [(start, start + len(thought))])[0].content.endswith("after")


def test_ignored_ranges_may_come_in_any_order_and_overlap() -> None:
    text = block(content="a") + block(content="b") + block(content="c")
    one = len(text) // 3
    assert [f.content for f in find_diary_blocks(text, [(one, one + 5), (0, 9), (3, 6), (one + 1, one + 2)])] == ["c"]


def test_a_long_run_of_start_markers_is_read_in_one_pass() -> None:
    text = "<<<DailyNoteStart>>>" * 50_000
    assert find_diary_blocks(text, [(i * 20, i * 20 + 1) for i in range(50_000)]) == []


@given(st.text(alphabet="MaidDateContent: \n<>x", max_size=200))
def test_any_text_can_be_searched(text: str) -> None:
    assert find_diary_blocks(text + block() + text)


@given(st.lists(st.text(alphabet="abc \n中", min_size=1).filter(str.strip), max_size=5))
def test_blocks_come_back_as_they_were_written(contents: list[str]) -> None:
    text = "talk\n".join(block(content=content) for content in contents)
    assert [found.content for found in find_diary_blocks(text)] == [content.strip() for content in contents]


# --- author and folder -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maid", "folder", "signature"),
    [
        ("[公共]小克", "公共", "小克"),
        ("[ 小克的知识 ] 小克 ", "小克的知识", "小克"),
        ("[公共]", "公共", ""),
        ("x[公共]小克", "x[公共]小克", "x[公共]小克"),
        ("[[a]]b", "[a", "]b"),
        (" 小克 ", "小克", "小克"),
        ("\u3000小克\ufeff", "小克", "小克"),
        ("[open", "[open", "[open"),
        ("[]小克", "", "小克"),
    ],
)
def test_the_author_gives_folder_and_signature(maid: str, folder: str, signature: str) -> None:
    """G11."""
    assert split_author(maid) == (folder, signature)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("a/b:c", "abc"),
        ("..x..", "x"),
        ("   ", "Untitled"),
        ("", "Untitled"),
        ("...", "Untitled"),
        ("..", "Untitled"),
        (". .. .", "Untitled"),
        ("../../etc/passwd", "etcpasswd"),
        ("..\\..\\x", "x"),
        ('a\\b/c:d*e?f"g<h>i|j', "abcdefghij"),
        ("a\x00b\x1fc\x7fd", "abcd"),
        ("a\nb", "ab"),
        (" 公共 ", "公共"),
        ("v1..2", "v1..2"),
        ("half\ud800", "half"),
        ("CON", "CON_"),
        ("nul.txt", "nul_.txt"),
        ("com1", "com1_"),
        ("COM¹", "COM¹_"),
        ("console", "console"),
        ("公共的知识簇", "公共的知识簇"),
    ],
)
def test_a_folder_name_is_cleaned(name: str, folder: str) -> None:
    """G12."""
    assert safe_folder(name) == folder


def test_a_long_folder_name_is_cut_between_characters() -> None:
    assert safe_folder("字" * 300) == "字" * 85


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("./\\ \u3000:con\x00"))))
def test_a_folder_is_one_harmless_component_and_stays_the_same(name: str) -> None:
    folder = safe_folder(name)
    assert folder
    assert folder not in (".", "..")
    assert not set(folder) & set('\\/:*?"<>|\x00')
    assert not folder.startswith((".", " ")) and not folder.endswith((".", " "))
    assert len(folder.encode("utf-8")) <= MAX_NAME_BYTES
    assert safe_folder(folder) == folder


# --- dates and file names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("date", "normal"),
    [
        ("2025.11.27", "2025-11-27"),
        ("2025/11/27", "2025-11-27"),
        ("2025 11 27", "2025-11-27"),
        ("2025\\11\\27", "2025-11-27"),
        ("2025-11-27", "2025-11-27"),
        ("2025. - 11 ../27", "2025-11-27"),
        (" 2025.11.27\r\n", "2025-11-27"),
        ("2025\u300011\ufeff27", "2025-11-27"),
        ("2025年11月27日", "2025年11月27日"),
        ("2025\x00.11", "2025-11"),
    ],
)
def test_a_date_is_normalised(date: str, normal: str) -> None:
    """G10."""
    assert normalise_date(date) == normal


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("./\\- \t"))))
def test_normalising_a_date_twice_changes_nothing_more(date: str) -> None:
    assert normalise_date(normalise_date(date)) == normalise_date(date)


@pytest.mark.parametrize(
    ("attempt", "extension", "name"),
    [
        (1, "txt", "2025-11-27-09_05_07.txt"),
        (2, "txt", "2025-11-27-09_05_07_2.txt"),
        (3, "md", "2025-11-27-09_05_07_3.md"),
    ],
)
def test_a_file_name_has_date_time_and_number(attempt: int, extension: str, name: str) -> None:
    assert file_name("2025.11.27", MOMENT, extension, attempt) == name


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("./\\:* "))), st.integers(1, 10_000))
def test_a_file_name_is_one_component_within_the_limit(date: str, attempt: int) -> None:
    name = file_name(date, MOMENT, "txt", attempt)
    assert name.endswith(".txt")
    assert not name.startswith(".")
    assert not set(name) & set('\\/:*?"<>|\x00')
    assert len(name.encode("utf-8")) <= MAX_NAME_BYTES


@pytest.mark.parametrize(
    ("signature", "line"),
    [("小克", "[2025-11-27] - 小克"), ("", "[2025-11-27] - "), ("a\nb\x00", "[2025-11-27] - a b")],
)
def test_the_first_line_has_date_and_author(signature: str, line: str) -> None:
    assert heading("2025.11.27", signature) == line


# --- tags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "normal"),
    [
        ("tag:A，B、C", "Tag: A, B, C"),
        ("Tag: A ,B,  C", "Tag: A, B, C"),
        ("Tag：消费降级，鸭货", "Tag: 消费降级, 鸭货"),
        ("Tag: 时间：早上，地点", "Tag: 时间早上, 地点"),
        ("TAG:a,,b", "Tag: a,, b"),
        ("Tag: a;b；c", "Tag: a;b；c"),
        ("Tag: two  words ,x", "Tag: two words, x"),
        ("Tag: Tag: a", "Tag: Tag: a"),
    ],
)
def test_a_tag_line_is_recognised_and_normalised(line: str, normal: str) -> None:
    assert split_tag_line(f"Body\n{line}") == ("Body", normal)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n  \n", " \u3000"])
def test_blanks_behind_the_tag_line_do_not_hide_it(ending: str) -> None:
    assert split_tag_line(f"Body\nTag: a{ending}") == ("Body", "Tag: a")


@pytest.mark.parametrize(
    "content",
    [
        "Body",
        "Tag: first\nBody",
        "Body\nhashTag: a",
        "Body\nTag:",
        "Body\nTag:   ",
        "Body\nTag: ，",
        "Body\nTags: a",
        "",
    ],
)
def test_text_without_a_tag_line_stays_as_it_is(content: str) -> None:
    assert split_tag_line(content) == (content, None)


def test_only_the_last_line_is_a_tag_line() -> None:
    assert split_tag_line("Tag: first\nTag: second, third") == ("Tag: first", "Tag: second, third")


def test_the_body_before_the_tag_line_keeps_its_blank_lines() -> None:
    assert split_tag_line("Body\n\n\nTag: a") == ("Body\n\n", "Tag: a")


def test_a_note_may_be_its_tag_line_alone() -> None:
    assert split_tag_line("Tag: a") == ("", "Tag: a")


@given(st.text(alphabet=st.sampled_from("ab中，、,：; \t\u3000\ufeffTag:")))
def test_normalising_tags_twice_changes_nothing_more(line: str) -> None:
    assert normalise_tags(normalise_tags(line)) == normalise_tags(line)


@given(st.text(alphabet=st.sampled_from("ab中，、,： \nTag:")))
def test_splitting_keeps_the_body_to_the_letter(content: str) -> None:
    body, tag_line = split_tag_line(content)
    assert content.startswith(body)
    assert (tag_line is None) == (body == content)


# --- the whole file --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "tag_line", "text"),
    [
        ("Body", "Tag: a", "[2025-11-27] - 小克\nBody\nTag: a"),
        ("Body\n", None, "[2025-11-27] - 小克\nBody\n"),
        ("", "Tag: a", "[2025-11-27] - 小克\nTag: a"),
        ("Body\r\nmore", "Tag: a", "[2025-11-27] - 小克\nBody\nmore\nTag: a"),
        ("Body\nTag:", "Tag: a", "[2025-11-27] - 小克\nBody\nTag: a"),
        ("Body\nTag:", None, "[2025-11-27] - 小克\nBody\nTag:"),
    ],
)
def test_a_diary_file_is_heading_body_and_tags(body: str, tag_line: str | None, text: str) -> None:
    assert diary_text("2025.11.27", "小克", body, tag_line) == text
