"""The index follows the files (memory.md 3.1, 3.2, 11.2, 11.5, 11.6; D80, D88; P62, P68)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.memory.index import note_files
from app.memory.index.database import IndexBrokenError
from app.memory.index.doctor import faults_of, words_are_whole
from app.memory.index.memory_index import MemoryIndex
from app.memory.index.note_files import NoteRules
from app.memory.index.records import IndexChange
from app.memory.index.sync import Sync, SyncPace
from tests.memory.index.conftest import Home, found, lines
from tests.server import run
from tests.waiting import until

NOTE = "[2025-11-27] - 小克\n今天装好了新显卡 RX-7900，风扇很安静。\nTag: 显卡, 电脑"


def test_notes_are_found_by_their_words_with_day_author_title_and_tags(home: Home) -> None:
    home.write("小克/2025-11-27-10_00_00.txt", NOTE)
    home.write("公共/b.md", "# 火锅店\n周末去了新开的火锅店。")
    home.write("c.txt", "放在根目录的日记")

    async def main() -> None:
        async with home.synced() as (index, _):
            assert await found(index, "RX-7900 显卡") == ["小克/2025-11-27-10_00_00.txt"]
            assert await found(index, "火锅") == ["公共/b.md"]
            assert await found(index, "火锅", "小克") == []
            assert await found(index, "根目录", "Root") == ["c.txt"]
            books = index.notebooks()
            assert {name: (book.notes, book.chunks) for name, book in books.items()} == {
                "小克": (1, 1),
                "公共": (1, 1),
                "Root": (1, 1),
            }
            hits = await index.lexical(["rx-7900"], None, 5)
            record = (await index.chunks([hits[0][0]]))[hits[0][0]]
            assert (str(record.day), record.author, record.tags) == ("2025-11-27", "小克", ("显卡", "电脑"))
            assert record.text == NOTE  # byte for byte (D79)
            tags = await index.tag_notes()
            assert tags["显卡"] == frozenset({record.note_id})

    run(main())


def test_what_is_deleted_is_gone_from_the_file_and_its_wal_too(home: Home) -> None:
    """11.6; D80: the words of a deleted note are in no file of the index any more, nor in copies set aside."""
    for number in range(12):
        home.write(f"小克/{number}.txt", f"{NOTE}\n第{number}篇")
    home.write("小克/secret.txt", "[2025-11-28] - 小克\n紫罗兰计划的密码是 Quokka77。\nTag: 机密水豚")
    secrets = ("紫罗兰", "Quokka77", "quokka77", "机密水豚")

    def held() -> list[str]:
        files = [path for path in home.file.parent.rglob("*") if path.is_file()]
        return [f"{path.name}: {word}" for path in files for word in secrets if word.encode() in path.read_bytes()]

    async def main() -> None:
        async with home.synced() as (index, sync):
            home.write("../x", "紫罗兰").replace(f"{home.file}.broken")
            assert len(held()) > 1
            (home.root / "小克/secret.txt").unlink()
            sync.glance()
            await sync.fresh(10)
            assert await found(index, "紫罗兰计划") == []
            await until(lambda: not index.has_old_text)
            assert held() == []
            assert len(await found(index, "显卡")) == 12
            assert not await index.database.read(faults_of)
            await index.database.write(words_are_whole)

    run(main())


def test_what_is_edited_out_of_a_note_is_gone_from_the_file_and_its_wal_too(home: Home) -> None:
    """11.6: as sentences; single words may stay among those of FTS5 until it merges them."""
    secret = "紫罗兰计划的密码是 Quokka77，请勿外传。"
    note = f"[2025-11-28] - 小克\n{secret}\n别的话。"
    home.write("小克/a.txt", note)

    def held() -> list[str]:
        files = [path for path in home.file.parent.rglob("*") if path.is_file()]
        return [path.name for path in files if secret.encode() in path.read_bytes()]

    async def main() -> None:
        async with home.synced() as (index, sync):
            assert held()
            home.write("小克/a.txt", note.replace(secret, "已删。"))
            sync.glance()
            await sync.fresh(10)
            await until(lambda: not index.has_old_text)
            assert held() == []
            assert not await index.database.read(faults_of)

    run(main())


def test_wiping_out_goes_on_after_a_restart(home: Home) -> None:
    home.write("小克/a.txt", NOTE)
    home.write("小克/secret.txt", "Quokka77")

    async def main() -> None:
        index = MemoryIndex(home.file)
        await home.parts(index).caught_up()
        await index.write(removed=["小克/secret.txt"])
        await index.stop()
        (home.root / "小克/secret.txt").unlink()
        async with home.synced() as (index, _):
            await until(lambda: not index.has_old_text)
            assert not [path for path in home.file.parent.glob("*") if b"uokka77" in path.read_bytes()]

    run(main())


def test_a_question_waits_for_what_was_told_of_just_now_and_for_nothing_else(home: Home) -> None:
    """D80: what our own tools write is there for the next question, however quickly that comes."""
    home.write("小克/a.txt", NOTE)

    async def main() -> None:
        async with home.synced() as (index, sync):
            for number in range(3):
                home.write(f"小克/b{number}.txt", f"第{number}次讨论了量子计算")
                sync.glance()
                await sync.fresh(10)
                assert len(await found(index, "量子计算")) == number + 1
            sync.look(["小克/nothing.txt"])
            await sync.fresh(10)
            await sync.stop()
            sync.glance()
            await sync.fresh(10)  # nobody works any more

    run(main())


def test_a_tool_s_write_edit_and_delete_are_seen_at_a_glance(home: Home) -> None:
    """D80: writes by our own tools are indexed at once; 11.6: what is deleted is gone from everything."""
    home.write("小克/a.txt", NOTE)

    async def main() -> None:
        async with home.synced() as (index, sync):
            before = index.notebooks()["小克"].generation
            home.write("新本子/子目录/b.txt", "讨论了量子计算")
            sync.glance()
            await sync.settled()
            assert await found(index, "量子计算") == ["新本子/子目录/b.txt"]
            assert index.notebooks()["小克"].generation == before  # only what was touched
            home.write("小克/a.txt", "改成了咖啡豆")
            sync.glance()
            await sync.settled()
            assert await found(index, "咖啡豆") == ["小克/a.txt"]
            assert await found(index, "显卡") == []
            assert index.notebooks()["小克"].generation > before
            assert "显卡" not in await index.tag_notes()
            (home.root / "小克/a.txt").unlink()
            sync.look(["小克/a.txt"])
            await sync.settled()
            assert await found(index, "咖啡豆") == []
            assert "小克" not in index.notebooks()
        assert await home.once() == await home.clean()

    run(main())


def test_p62_a_note_of_the_same_size_and_second_is_read_again(home: Home) -> None:
    """A file that was just written may change again without its time saying so."""
    path = home.write("小克/a.txt", "第一个版本甲")

    async def main() -> None:
        async with home.synced() as (index, sync):
            seen = path.stat()
            path.write_text("第一个版本乙")
            os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
            sync.rescan()
            await sync.settled()
            assert (await index.chunks([1, 2]))[2].text == "第一个版本乙"

    run(main())


@pytest.mark.parametrize("days", [1, 365])
def test_a_clock_that_was_set_back_and_forth_costs_no_note_and_no_reading_anew(home: Home, days: int) -> None:
    """Files whose times lie in the future are read once, and again when they change."""
    now = [time.time() + days * 86_400]

    async def main() -> None:
        index = MemoryIndex(home.file)
        sync = Sync(lambda: home.root, index, NoteRules, SyncPace, clock=lambda: now[0])
        for name in ("a.txt", "b.txt"):
            os.utime(home.write(f"小克/{name}", NOTE), (now[0] - 60, now[0] - 60))
        await sync.caught_up()
        assert (sync.state.indexed, sync.state.commits) == (2, 1)
        now[0] -= days * 86_400
        await sync.caught_up()
        await sync.caught_up()
        assert (sync.state.indexed, sync.state.commits) == (2, 1)  # nothing was looked into
        os.utime(home.write("小克/a.txt", "关于恒星"), (now[0] - 60, now[0] - 60))
        await sync.caught_up()
        assert await found(index, "恒星") == ["小克/a.txt"]
        now[0] += 2 * days * 86_400
        os.utime(home.write("小克/b.txt", "关于行星"), (now[0] - 60, now[0] - 60))
        await sync.caught_up()
        assert await found(index, "行星") == ["小克/b.txt"]
        assert (sync.state.indexed, sync.state.scanned_at) == (4, now[0])
        await index.stop()

    run(main())


def test_p68_a_note_that_is_being_written_is_read_when_it_is_whole(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.write("小克/a.txt", "前半")
    real = note_files.state_of
    looks = 0

    def growing(root: Path, name: str) -> note_files.FileState | None:
        nonlocal looks
        looks += 1
        if looks == 2:  # between the read and the second look
            path.write_text("前半后半")
        return real(root, name)

    monkeypatch.setattr(note_files, "state_of", growing)

    async def main() -> None:
        async with home.synced() as (index, _):
            assert [chunk.text for chunk in (await index.chunks(range(1, 10))).values()] == ["前半后半"]

    run(main())
    assert looks >= 4


def test_a_moved_note_keeps_the_hashes_of_its_chunks(home: Home) -> None:
    """D80, 11.5: moves and renames embed nothing anew."""
    path = home.write("小克/a.txt", NOTE)
    changes: list[IndexChange] = []

    async def main() -> None:
        async with home.synced() as (index, sync):
            shas = {place.embed_sha for place in await index.places()}
            index.changed(changes.append)
            target = home.root / "小克的知识" / "归档.md"
            target.parent.mkdir()
            path.replace(target)
            sync.glance()
            await sync.settled()
            assert {place.embed_sha for place in await index.places()} == shas
            assert await found(index, "归档") == ["小克的知识/归档.md"]  # file names are matched by words
            assert frozenset().union(*(change.notebooks for change in changes)) == {"小克", "小克的知识"}

    run(main())


def test_only_chunks_that_are_new_come_and_only_those_that_are_old_go(home: Home) -> None:
    texts = [
        f"第{number}段。" + f"这里讲的是第{number}件事情，内容各不相同，编号{number * 7919}。" * 5
        for number in range(60)
    ]
    home.write("小克/长.md", "\n".join(texts))
    changes: list[IndexChange] = []

    async def main() -> None:
        async with home.synced() as (index, sync):
            before = {place.id: place for place in await index.places()}
            assert len(before) > 10
            index.changed(changes.append)
            texts[30] += "多了一句话。"
            home.write("小克/长.md", "\n".join(texts))
            sync.glance()
            await sync.settled()
            after = {place.id: place for place in await index.places()}
            (change,) = changes
            assert {place.id for place in change.added} == after.keys() - before.keys()
            assert set(change.removed) == before.keys() - after.keys()
            assert 1 <= len(change.added) <= 2
        assert await home.once() == await home.clean()

    run(main())


def test_folders_and_files_are_left_out_by_the_rules(home: Home) -> None:
    """3.1: folders, prefixes and suffixes of stems and folders; dot-files, temporary files, other extensions."""
    for path in (
        "VCP论坛/a.txt",
        "已整理2024/a.txt",
        "小克/已整理-a.txt",
        "小克/某夜伽.txt",
        "小克/.隐藏.txt",
        "小克/.git/a.txt",
        "小克/a.json",
        "小克/b.TXT",
        "小克/c.Md",
    ):
        home.write(path, "一样的内容")
    home.rules = NoteRules(folders=("vcp论坛",), prefixes=("已整理",), suffixes=("夜伽",))

    async def main() -> None:
        async with home.synced() as (index, sync):
            assert sorted(await found(index, "内容")) == ["小克/b.TXT", "小克/c.Md"]
            home.rules = NoteRules()  # a reload takes the rules away
            sync.glance()
            await sync.settled()
            assert len(await found(index, "内容")) == 6

    run(main())


def test_links_are_not_followed(home: Home, tmp_path: Path) -> None:
    """11.1: what lies outside of the notebooks is nobody's note."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("机密内容")
    home.write("小克/a.txt", "公开内容")
    (home.root / "链接").symlink_to(outside)
    (home.root / "小克" / "b.txt").symlink_to(outside / "secret.txt")
    os.mkfifo(home.root / "小克" / "c.txt")

    async def main() -> None:
        async with home.synced() as (index, sync):
            sync.look(["链接/secret.txt", "小克/b.txt", "../outside/secret.txt", "小克/\0.txt"])
            await sync.settled()
            assert await found(index, "机密内容") == ["小克/a.txt"]
            assert len(await index.places()) == 1

    run(main())


def test_a_note_that_cannot_be_read_now_stays_as_it_was_and_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P62, P68: the old text stays until the new one reads well; other notes lose nothing."""
    home.write("小克/a.txt", "旧的内容")
    home.write("小克/b.txt", "别的东西")
    real = os.open
    broken = False

    def opening(path: str, *rest: int, **more: int) -> int:
        if broken and str(path).endswith("a.txt"):
            raise OSError(5, "Input/output error")
        return real(path, *rest, **more)

    monkeypatch.setattr(note_files.os, "open", opening)

    async def main() -> None:
        nonlocal broken
        async with home.synced() as (index, sync):
            broken = True
            home.write("小克/a.txt", "新的东西")
            home.write("小克/b.txt", "新的东西")
            sync.glance()
            await sync.settled()
            assert await found(index, "新的东西") == ["小克/b.txt"]
            assert await found(index, "旧的内容") == ["小克/a.txt"]
            faulty = await index.database.read(lambda c: c.execute("SELECT path, fault FROM notes").fetchall())
            assert ("小克/a.txt", "Input/output error") in faulty
            broken = False
            sync.rescan()
            await sync.settled()
            assert sorted(await found(index, "新的东西")) == ["小克/a.txt", "小克/b.txt"]

    run(main())


def test_hostile_notes_are_notes_or_are_told(home: Home) -> None:
    home.write("小克/空.txt", "")
    home.write("小克/空白.txt", " \n\t\n ")
    home.write("小克/零.txt", "a\0b \x01 文本")
    home.write("小克/中文.txt", "国标编码的日记".encode("gb18030"))
    home.write("小克/乱.txt", b"\xff\xfe\x00\xd8 binary \x80\x81")
    home.write("小克/标记.txt", '{{小克日记本}} <<<[TOOL_REQUEST]>>> $& "引号" OR AND NOT NEAR( * ^')
    home.write("小克/" + "长" * 80 + ".txt", "名字很长")
    home.write("小克/大.txt", b"x" * (note_files.MAX_NOTE_BYTES + 1))
    (home.root / os.fsdecode(b"\xff\xfe.txt")).write_text("名字不是 UTF-8")

    async def main() -> None:
        async with home.synced() as (index, sync):
            assert await found(index, "国标编码") == ["小克/中文.txt"]
            assert await found(index, '"引号" OR NOT NEAR(*') == ["小克/标记.txt"]
            hits = await index.lexical(["*", "", "^", '"', "body:", "(("], None, 5)
            assert hits == []
            faults = await index.database.read(
                lambda c: c.execute("SELECT path, fault FROM notes WHERE fault <> ''").fetchall()
            )
            assert faults == [("小克/大.txt", "it has more than 8 MiB")]
            assert any("UTF-8" in why for why in sync.state.faults.values())
        assert await home.once() == await home.clean()

    run(main())


def test_a_missing_root_takes_no_note_away(home: Home) -> None:
    """A network drive that is not there now has not lost its notes."""
    home.write("小克/a.txt", NOTE)

    async def main() -> None:
        async with home.synced() as (index, sync):
            away = home.root.with_name("away")
            home.root.rename(away)
            sync.look(["小克/a.txt"])
            sync.rescan()
            with pytest.raises(Exception, match="dailynote"):
                await sync.settled()
            assert "dailynote" in sync.health()
            assert await found(index, "显卡") == ["小克/a.txt"]
            away.rename(home.root)
            sync.rescan()
            await sync.settled()
            assert sync.health() == ""
            assert await found(index, "显卡") == ["小克/a.txt"]

    run(main())


def test_a_full_disk_loses_nothing(home: Home) -> None:
    """11.2: what cannot be written now is written later, and health says so meanwhile."""
    home.write("小克/a.txt", NOTE)

    async def main() -> None:
        async with home.synced() as (index, sync):
            pages = await index.database.write(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
            await index.database.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchall())
            for number in range(12):
                home.write(f"小克/{number}.txt", f"第{number}篇关于磁盘的日记 " + "很长 " * 500)
            sync.glance()
            with pytest.raises(Exception, match="full"):
                await sync.settled()
            assert "full" in sync.health()
            assert await found(index, "显卡") == ["小克/a.txt"]
            await index.database.write(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchall())
            sync.glance()
            await sync.settled()
            assert sync.health() == ""
            assert len(await index.places()) > 40
        assert await home.once() == await home.clean()

    run(main())


def test_a_damaged_index_is_made_anew_from_the_files(home: Home) -> None:
    """11.3: the index is derived; a damaged file is moved aside, at the start and while it runs."""
    for number in range(30):
        home.write(f"小克/{number}.txt", f"第{number}篇 关于行星 " + "很长的话 " * 100)

    async def main() -> None:
        whole = await home.once()
        with home.file.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xee" * 40_000)
        assert await home.once() == whole
        assert home.file.with_name(home.file.name + ".broken").exists()
        home.file.write_bytes(b"this is no database" * 100)
        assert await home.once() == whole
        async with home.synced() as (index, sync):
            await index.database.checkpoint()
            with home.file.open("r+b") as file:
                file.seek(4096)
                file.write(b"\xee" * (home.file.stat().st_size - 4096))
            for number in range(30):
                home.write(f"小克/{number}.txt", f"第{number}篇 关于恒星 " + "很长的话 " * 100)
            sync.glance()
            await sync.settled()
            assert len(await found(index, "恒星")) == 20
        assert await home.once() == await home.clean()

    run(main())


def test_damage_that_only_questions_meet_is_healed_too(home: Home) -> None:
    """11.3: nothing has to be written for it. A file that was cut is not read: the system would end the program."""
    for number in range(30):
        home.write(f"小克/{number}.txt", f"第{number}篇 关于行星 " + "很长的话 " * 100)

    def overwrite() -> None:
        with home.file.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xee" * (home.file.stat().st_size - 4096))

    def cut() -> None:
        os.truncate(home.file, 8192)

    async def main() -> None:
        for harm in (overwrite, cut):
            async with home.synced() as (index, sync):
                assert len(await found(index, "行星")) == 20
                await index.database.checkpoint()
                harm()
                with pytest.raises(IndexBrokenError):
                    await index.places()
                await sync.settled()
                assert len(await found(index, "行星")) == 20
            assert await home.once() == await home.clean()

    run(main())


def test_an_index_of_another_version_is_made_anew(home: Home) -> None:
    home.write("小克/a.txt", NOTE)

    async def main() -> None:
        whole = await home.once()
        with closing(sqlite3.connect(home.file)) as connection:
            connection.execute("PRAGMA user_version = 999")
        assert await home.once() == whole
        with closing(sqlite3.connect(home.file)) as connection:
            connection.execute("PRAGMA application_id = 1")
        assert await home.once() == whole

    run(main())


def test_other_rules_for_tags_have_all_notes_read_anew(home: Home) -> None:
    """3.1: TAG_BLACKLIST takes effect with a reload, and over a restart."""
    home.write("小克/a.txt", NOTE)

    async def main() -> None:
        async with home.synced() as (index, sync):
            assert set(await index.tag_notes()) == {"显卡", "电脑"}
            home.rules = NoteRules(tag_blacklist=("电脑",))
            sync.glance()
            await sync.settled()
            assert set(await index.tag_notes()) == {"显卡"}
        home.rules = NoteRules(tag_blacklist=("显卡",))
        async with home.synced() as (index, _):
            assert set(await index.tag_notes()) == {"电脑"}

    run(main())


def test_tags_are_one_whatever_their_case_and_width(home: Home) -> None:
    """3.5: NFKC-folded for identity, shown in the least of their forms, whoever came first."""
    home.write("小克/a.txt", "甲\nTag: ＲＸ显卡, rx显卡")
    home.write("小克/b.txt", "乙\nTag: rx显卡")

    async def main() -> None:
        async with home.synced() as (index, sync):
            tags = await index.tag_notes()
            assert {name: len(notes) for name, notes in tags.items()} == {"rx显卡": 2}
            (home.root / "小克/b.txt").unlink()
            sync.glance()
            await sync.settled()
            assert set(await index.tag_notes()) == {"ＲＸ显卡"}
        assert await home.once() == await home.clean()

    run(main())


def test_the_first_look_waits_when_the_settings_say_so(home: Home) -> None:
    """3.1: KNOWLEDGEBASE_FULL_SCAN_ON_STARTUP=false."""
    home.write("小克/a.txt", NOTE)
    home.pace = replace(home.pace, full_scan=False)

    async def main() -> None:
        index = MemoryIndex(home.file)
        sync = home.parts(index)
        await sync.start()
        try:
            await sync.settled()
        finally:
            await sync.stop()
            await index.stop()
        assert sync.state.scanned_at == 0

    run(main())


def test_changed_notes_go_before_many_old_ones_and_the_loop_stays_free(home: Home) -> None:
    """11.28: a note that was just written is found while thousands wait; nothing holds the event loop."""
    for number in range(300):
        home.write(f"旧/{number}.txt", f"第{number}篇旧日记。" + "这是很久以前的内容。" * 20)
    home.pace = SyncPace(batch=20, share=0.5)

    async def main() -> None:
        index = MemoryIndex(home.file)
        sync = home.parts(index)
        await sync.start()
        try:
            while not index.notebooks():
                await asyncio.sleep(0.001)
            home.write("小克/新.txt", "刚刚写下的新日记")
            sync.look(["小克/新.txt"])
            while "小克" not in index.notebooks():
                await asyncio.sleep(0.001)
            assert index.notebooks()["旧"].notes < 300
            await sync.settled()
            assert index.notebooks()["旧"].notes == 300
        finally:
            await sync.stop()
            await index.stop()
        assert await home.once() == await home.clean()

    run(main())


def test_many_changes_come_out_as_a_clean_index(home: Home) -> None:
    for number in range(20):
        home.write(f"本{number % 3}/{number}.txt", f"第{number}篇\nTag: 标签{number % 5}, 共同")

    async def main() -> None:
        async with home.synced() as (index, sync):
            for turn in range(10):
                home.write(f"本{turn % 3}/{turn}.txt", f"第{turn}篇，改了\nTag: 新{turn}, 共同")
                (home.root / f"本{(turn + 10) % 3}/{turn + 10}.txt").unlink()
                sync.glance()
                if turn % 3 == 0:
                    await sync.settled()
            await sync.settled()
            assert await lines(index) == await home.clean()
            assert time.time() - sync.state.scanned_at < 60

    run(main())


def test_11_31_since_when_something_waits_is_told_until_nothing_does(home: Home) -> None:
    home.write("小克/a.txt", NOTE)

    async def main() -> None:
        async with home.synced() as (_, sync):
            assert (sync.state.pending, sync.state.stale_since) == (0, 0.0)
            home.write("小克/a.txt", NOTE + "\n多一行")
            sync.look(["小克/a.txt"])
            assert time.time() - sync.state.stale_since < 60
            await sync.settled()
            assert (sync.state.pending, sync.state.stale_since) == (0, 0.0)

    run(main())
