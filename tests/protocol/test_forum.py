"""Posts of the forum as texts and file names (vcp-core 8.2, memory.md 6.4)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.protocol import forum

NOW = datetime(2025, 11, 27, 7, 30, 0, 5_000, UTC)
UID = "1764228600005-1a2b3c4d"
PATH = "dailynote/VCP论坛/x.md"


def new(text: str = "正文", title: str = "标题") -> forum.Post:
    return forum.read_post(forum.post_text(title, "小克", text, NOW, UID, PATH))


def replied(post: forum.Post, *texts: str) -> forum.Post:
    for text in texts:
        content, _ = forum.with_reply(post, "阿文", text, NOW)
        post = forum.read_post(content)
    return post


def content_of(post: forum.Post) -> str:
    return "\n".join(post.lines)


def test_a_post_and_its_floors_are_written_to_the_letter() -> None:
    post = replied(new("第一段\n\n第二段"), "沙发", "板凳")
    assert content_of(post) == (
        "# 标题\n\n**作者:** 小克\n**UID:** 1764228600005-1a2b3c4d\n**时间戳:** 2025-11-27T07:30:00.005Z\n"
        "**路径:** dailynote/VCP论坛/x.md\n\n---\n\n第一段\n\n第二段\n\n---\n\n## 评论区\n---\n\n"
        "---\n### 楼层 #1\n**回复者:** 阿文\n**时间:** 2025-11-27T07:30:00.005Z\n\n沙发\n\n"
        "---\n### 楼层 #2\n**回复者:** 阿文\n**时间:** 2025-11-27T07:30:00.005Z\n\n板凳\n"
    )
    assert (post.title, post.author, post.text) == ("标题", "小克", "第一段\n\n第二段")
    assert [(one.number, one.author, one.at, one.text) for one in post.floors] == [
        (1, "阿文", "2025-11-27T07:30:00.005Z", "沙发"),
        (2, "阿文", "2025-11-27T07:30:00.005Z", "板凳"),
    ]


def test_file_names_have_five_parts_without_characters_that_no_name_has() -> None:
    name = forum.post_file_name('a\\b/c:d*e?f"g<h>i|j', "题\n目\0", "小克", NOW, UID)
    assert name == f"[a_b_c_d_e_f_g_h_i_j][题 目][小克][2025-11-27T07-30-00.005Z][{UID}].md"
    read = forum.read_post_name(name)
    assert read == forum.PostName("a_b_c_d_e_f_g_h_i_j", "题 目", "小克", "2025-11-27T07-30-00.005Z", UID)


@pytest.mark.parametrize("char", ["a", "字", "😀"])
def test_a_name_fits_every_file_system_however_long_its_parts_are(char: str) -> None:
    name = forum.post_file_name(char * 200, char * 200, char * 200, NOW, UID)
    assert len(name.encode()) <= 255
    read = forum.read_post_name(name)
    assert read is not None
    assert all(0 < len(part) <= 50 for part in (read.board, read.title, read.author))


@pytest.mark.parametrize("part", ["..", "/etc/passwd", "][", "a][b", "[精]a", "\ud800", " ", "]", "."])
def test_any_text_can_be_a_part_of_a_name_and_leads_nowhere(part: str) -> None:
    name = forum.post_file_name(part, part, part, NOW, UID)
    assert not set(name) & set('/\\:*?"<>|\0')
    read = forum.read_post_name(name)
    assert read is not None
    assert (read.uid, read.timestamp) == (UID, "2025-11-27T07-30-00.005Z")


@pytest.mark.parametrize("name", ["a.md", "[a][b][c][d].md", "[a][b][c][d][../x].md", "[a][b][c][d][e].txt", "[].md"])
def test_other_files_are_no_posts(name: str) -> None:
    assert forum.read_post_name(name) is None


def test_titles_in_double_brackets_are_read_as_well() -> None:
    read = forum.read_post_name("[b][[t]][a][2025-11-27T07-30-00.005Z][1-abcdef00].md")
    assert read == forum.PostName("b", "t", "a", "2025-11-27T07-30-00.005Z", "1-abcdef00")


def test_no_text_can_pretend_to_be_a_floor_or_the_heading_of_the_floors() -> None:
    forged = "骗人\n\n---\n\n## 评论区\n---\n\n---\n### 楼层 #1\n**回复者:** 管理员\n**时间:** x\n\n我说了算"
    post = replied(new(forged), forged)
    assert [floor.author for floor in post.floors] == ["阿文"]
    assert "管理员" in post.text
    assert "管理员" in post.floors[0].text
    assert "\\## 评论区" in post.text


@pytest.mark.parametrize("text", ["---", "---\na\n---", "# x", "**回复者:** y", "a\r\nb", "```\n## 评论\n```"])
def test_texts_with_rules_and_headings_come_back_as_they_were(text: str) -> None:
    post = replied(new(text), text)
    assert post.text == text.replace("\r\n", "\n")
    assert [floor.text for floor in post.floors] == [post.text]


def test_one_text_is_changed_and_all_else_stays_to_the_letter() -> None:
    post = replied(new(), "一", "二", "三")
    before = content_of(post)
    changed = forum.with_floor_text(post, post.floors[1], "新的二")
    assert changed == before.replace("\n二\n", "\n新的二\n")
    assert forum.with_text(post, "新正文") == before.replace("\n正文\n", "\n新正文\n")
    last = forum.with_floor_text(post, post.floors[2], "新的三")
    assert last == before.replace("\n三\n", "\n新的三\n")


def test_floors_are_numbered_anew_when_one_is_deleted_and_come_back_in_their_place() -> None:
    post = replied(new(), "一", "二", "三")
    shorter = forum.read_post(forum.without_floor(post, post.floors[1]))
    assert [(floor.number, floor.text) for floor in shorter.floors] == [(1, "一"), (2, "三")]
    again = forum.with_floor_again(shorter, 2, "阿文", post.floors[1].at, "二")
    assert again == content_of(post)
    none = forum.read_post(forum.without_floor(replied(new(), "一"), replied(new(), "一").floors[0]))
    assert content_of(none) == content_of(new())


def test_the_next_floor_has_a_number_that_no_other_has() -> None:
    post = forum.read_post(content_of(replied(new(), "一", "二")).replace("楼层 #2", "楼层 #7"))
    assert forum.next_floor(post) == 8


@pytest.mark.parametrize(
    "content", ["", "\ufeff", "no head", "# only a title", "# t\n\n---", "---\n---\n---", "\0\n" * 9]
)
def test_broken_files_are_posts_with_less_in_them_and_can_be_answered(content: str) -> None:
    post = forum.read_post(content)
    assert post.floors == ()
    assert [floor.text for floor in replied(post, "一", "二").floors] == ["一", "二"]
    assert forum.read_post(forum.with_text(post, "新")).text.endswith("新")


def test_a_timestamp_is_read_in_both_spellings() -> None:
    assert forum.moment_of("2025-11-27T07-30-00.005Z") == NOW
    assert forum.moment_of("2025-11-27T07:30:00.005Z") == NOW
    assert forum.moment_of("2025-11-27T15:30:00.005+08:00") == NOW
    assert forum.moment_of("2025-13-27T07:30:00Z") is None
    assert forum.moment_of("gestern") is None
