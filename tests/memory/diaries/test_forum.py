"""The forum on the disk (vcp-core 8.2, memory.md 6.4): several writers, broken files, undo, names that lead away."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app.config.edited_file import EditConflictError
from app.config.trash_time import GRACE
from app.memory.diaries.files import DiaryError
from app.memory.diaries.forum import MAX_TEXT_BYTES, Forum, NoSuchPostError
from app.memory.diaries.forum_calls import forum_list
from app.memory.diaries.notebooks import NoSuchNoteError, PathRefusedError

START = datetime(2025, 11, 27, 7, 30, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now


def forum_in(home: Path) -> Forum:
    return Forum(home, home / "dailynote", Clock())


def folder(home: Path) -> Path:
    return home / "dailynote" / "VCP论坛"


def test_posts_are_listed_with_the_newest_word_first(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    assert forum.posts() == []
    first = forum.create("读书", "第一帖", "小克", "一")
    second = forum.create("闲聊", "a/b: 第二帖", "阿文", "二")
    assert [line.uid for line in forum.posts()] == [second.uid, first.uid]
    assert forum.reply(first.uid, "阿文", "来了") == 1
    lines = forum.posts()
    assert [line.uid for line in lines] == [first.uid, second.uid]
    assert (lines[0].last_reply_by, lines[0].last_reply_at) == ("阿文", "2025-11-27T07:33:00.000Z")
    assert (lines[1].title, lines[1].filename[:12]) == ("a/b: 第二帖", "[闲聊][a_b_ 第二")


def test_a_list_is_read_again_only_where_a_file_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forum = forum_in(tmp_path)
    uids = [forum.create("b", f"t{number}", "a", "x").uid for number in range(3)]
    forum.posts()
    forum.reply(uids[1], "r", "y")
    opened: list[str] = []
    real = os.open

    def counted(path: object, *more: object, **named: object) -> int:
        opened.append(str(path))
        return real(path, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", counted)
    assert forum.posts()[0].last_reply_by == "r"
    assert len([path for path in opened if path.endswith(".md")]) == 1


def test_a_long_post_is_listed_by_its_ends(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    uid = forum.create("b", "t", "a", "字" * 200_000).uid
    for number in range(3):
        forum.reply(uid, f"r{number}", "很长" * 5000)
    line = forum_in(tmp_path).posts()[0]
    assert (line.title, line.author, line.last_reply_by) == ("t", "a", "r2")


def test_of_many_writers_none_loses_a_word(tmp_path: Path) -> None:
    uid = forum_in(tmp_path).create("b", "t", "a", "x").uid

    def work(number: int) -> int:
        return Forum(tmp_path, tmp_path / "dailynote").reply(uid, f"r{number}", f"text {number}")

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(work, range(40)))
    floors = forum_in(tmp_path).read(uid).post.floors
    assert sorted(numbers) == [floor.number for floor in floors] == list(range(1, 41))
    assert {floor.text for floor in floors} == {f"text {number}" for number in range(40)}
    assert len(list(folder(tmp_path).iterdir())) == 1


def test_an_edit_by_the_version_that_was_read_meets_another_one(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    uid = forum.create("b", "t", "a", "x").uid
    read = forum.read(uid).fingerprint
    forum.reply(uid, "r", "dazwischen")
    with pytest.raises(EditConflictError) as told:
        forum.edit(uid, "neu", expected=read)
    assert "dazwischen" in told.value.content
    with pytest.raises(EditConflictError):
        forum.delete_floor(uid, 1, 30, expected=read)
    now = forum.read(uid).fingerprint
    assert told.value.current == now
    assert forum.edit(uid, "neu", floor=1, expected=now) == forum.read(uid).fingerprint
    assert forum.read(uid).post.floors[0].text == "neu"
    assert not list((tmp_path / ".vcp").rglob("floor-*"))


def test_deleted_posts_and_floors_come_back(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    uid = forum.create("b", "t", "a", "x").uid
    for text in ("eins", "zwei", "drei"):
        forum.reply(uid, "r", text)
    before = forum.read(uid).content
    trash = forum.delete_floor(uid, 2, 30)
    assert [floor.text for floor in forum.read(uid).post.floors] == ["eins", "drei"]
    assert forum.restore(trash) == uid
    assert forum.read(uid).content == before
    with pytest.raises(NoSuchNoteError):
        forum.restore(trash)
    trash = forum.delete(uid, 30)
    assert forum.posts() == []
    with pytest.raises(NoSuchPostError):
        forum.read(uid)
    assert forum.restore(trash) == uid
    assert forum.read(uid).content == before


def test_what_was_deleted_long_ago_goes_for_good(tmp_path: Path) -> None:
    clock = Clock()
    forum = Forum(tmp_path, tmp_path / "dailynote", clock)
    uid = forum.create("b", "t", "a", "x").uid
    forum.reply(uid, "r", "eins")
    forum.reply(uid, "r", "zwei")
    old = forum.delete_floor(uid, 1, 30)
    other = forum.create("b", "u", "a", "x").uid
    gone = forum.delete(other, 30)
    clock.now += timedelta(days=31)
    forum.restore(forum.delete_floor(uid, 1, 30))  # which notes what is due, and removes nothing yet
    assert {path.stem for path in (tmp_path / ".vcp/trash/forum").iterdir()} == {old}
    clock.now += GRACE
    young = forum.delete_floor(uid, 1, 30)
    for trash in (old, gone):
        with pytest.raises(NoSuchNoteError):
            forum.restore(trash)
    assert forum.restore(young) == uid


def test_a_damaged_file_of_a_deleted_floor_is_none(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    uid = forum.create("b", "t", "a", "x").uid
    forum.reply(uid, "r", "eins")
    trash = forum.delete_floor(uid, 1, 30)
    (path,) = (tmp_path / ".vcp" / "trash" / "forum").iterdir()
    for content in (b"", b"\xff", b"[]", b'{"uid": 1}', b'{"uid":"../x","place":1,"author":"","at":"","text":""}'):
        path.write_bytes(content)
        with pytest.raises(NoSuchNoteError):
            forum.restore(trash)


def test_without_a_trash_nothing_is_kept(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    uid = forum.create("b", "t", "a", "x").uid
    forum.reply(uid, "r", "eins")
    assert forum.delete_floor(uid, 1, 0) == ""
    assert forum.delete(uid, 0) == ""
    assert not [path for path in (tmp_path / ".vcp").rglob("*") if path.is_file()]


@pytest.mark.parametrize("uid", ["", "..", "../x", "1-a/../../x", "a\0b", "x" * 65, "]", "1764228600000-ffffffff"])
def test_only_ids_of_posts_that_are_there_are_found(tmp_path: Path, uid: str) -> None:
    forum = forum_in(tmp_path)
    with pytest.raises(NoSuchPostError):
        forum.read(uid)
    forum.create("b", "t", "a", "x")
    for work in (lambda: forum.read(uid), lambda: forum.reply(uid, "a", "b"), lambda: forum.delete(uid, 30)):
        with pytest.raises(NoSuchPostError):
            work()


@pytest.mark.parametrize("floor", [0, -1, 2, 10**9])
def test_floors_that_are_not_there_are_refused_and_nothing_changes(tmp_path: Path, floor: int) -> None:
    forum = forum_in(tmp_path)
    uid = forum.create("b", "t", "a", "x").uid
    forum.reply(uid, "r", "eins")
    before = forum.read(uid).content
    with pytest.raises(NoSuchPostError):
        forum.delete_floor(uid, floor, 30)
    with pytest.raises(NoSuchPostError):
        forum.edit(uid, "neu", floor=floor)
    assert forum.read(uid).content == before


@pytest.mark.parametrize(
    "trash", ["", "..", "floor-0000000000000-000000000000", "../../config", "2025-11-27T07-30-00-000Z"]
)
def test_only_what_was_deleted_from_the_forum_comes_back(tmp_path: Path, trash: str) -> None:
    with pytest.raises(NoSuchNoteError):
        forum_in(tmp_path).restore(trash)


def test_links_in_the_forum_are_neither_shown_nor_written(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    forum.create("b", "t", "a", "x")
    secret = tmp_path / "secret.md"
    secret.write_text("geheim")
    (folder(tmp_path) / "[b][t][a][2025-11-27T07-30-00.000Z][1-aaaaaaaa].md").symlink_to(secret)
    os.mkfifo(folder(tmp_path) / "[b][t][a][2025-11-27T07-30-00.000Z][1-bbbbbbbb].md")
    assert len(forum.posts()) == 1
    for uid in ("1-aaaaaaaa", "1-bbbbbbbb"):
        with pytest.raises(PathRefusedError):
            forum.read(uid)
        with pytest.raises(PathRefusedError):
            forum.reply(uid, "a", "b")
    assert secret.read_text() == "geheim"


def test_files_that_are_no_text_are_listed_and_keep_their_bytes(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    forum.create("b", "t", "a", "x")
    path = folder(tmp_path) / "[b][t][a][2025-11-27T07-30-00.000Z][1-aaaaaaaa].md"
    path.write_bytes(b"\xff\xfe half writ")
    assert {line.title for line in forum.posts()} == {"t"}
    forum.reply("1-aaaaaaaa", "a", "b")
    assert path.read_bytes().startswith(b"\xff\xfe half writ")


@pytest.mark.parametrize(
    "parts", [("", "t", "a", "x"), ("b", "\n", "a", "x"), ("b", "t", "", "x"), ("b", "t", "a", " \n")]
)
def test_a_post_needs_all_its_parts(tmp_path: Path, parts: tuple[str, str, str, str]) -> None:
    with pytest.raises(DiaryError):
        forum_in(tmp_path).create(*parts)
    assert not folder(tmp_path).exists() or not list(folder(tmp_path).iterdir())


def test_texts_have_a_limit_and_halves_of_characters_are_mended(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    with pytest.raises(DiaryError):
        forum.create("b", "t", "a", "x" * (MAX_TEXT_BYTES + 1))
    uid = forum.create("b\ud800", "t\0", "a", "x\ud800\0y").uid
    assert forum.read(uid).post.text == "x\ufffdy"


def test_the_list_for_prompts_is_by_board_and_names_what_a_call_needs(tmp_path: Path) -> None:
    forum = forum_in(tmp_path)
    first = forum.create("读书", "第一帖", "小克", "一")
    second = forum.create("闲聊", "第二帖", "阿文", "二")
    forum.reply(first.uid, "阿文", "来了")
    assert forum_list(forum.posts(), ZoneInfo("Asia/Shanghai")) == (
        "————[读书]————\n"
        f"[小克] 第一帖 (发布于: 2025-11-27 15:31) (最后回复: 阿文 at 2025-11-27 15:33) (UID: {first.uid})"
        f"\n\n————[闲聊]————\n[阿文] 第二帖 (发布于: 2025-11-27 15:32) (UID: {second.uid})"
    )
    assert forum_list([], ZoneInfo("UTC")).startswith("论坛还没有帖子")
