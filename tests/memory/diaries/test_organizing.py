"""Listing, merging and archiving of notes (memory.md 1.7 DailyNoteManager, both forms)."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app.memory.diaries import organizing
from app.memory.diaries.files import DiaryError
from app.memory.diaries.organizing import list_notes, organize, save_blocks
from app.memory.diaries.permissions import NotPermittedError, Permissions, Rule
from app.memory.diaries.requests import DiarySettings

OPEN = Permissions({})


@pytest.fixture
def settings(tmp_path: Path) -> DiarySettings:
    root = tmp_path / "dailynote"
    for name, text in {
        "小克/2025-11-26-08_00_00.txt": "[2025-11-26] - 小克\n前天\nTag: a",
        "小克/2025-11-27-08_00_00.txt": "[2025-11-27] - 小克\n昨天\nTag: b",
        "小克/2025.11.28.txt": "2025.11.28-小克\n今天",
        "小克/想法.md": "[2025-11-27] - 小克\n没有日期的文件名",
        "公共/2025-11-27-08_00_00.txt": "[2025-11-27] - x\n公共的",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return DiarySettings(tmp_path, root, ZoneInfo("Asia/Shanghai"), "txt", ())


def files(settings: DiarySettings) -> set[str]:
    return {p.relative_to(settings.root).as_posix() for p in settings.root.rglob("*") if p.is_file()}


def test_a_range_of_days_is_listed_with_addresses_that_organize_takes(settings: DiarySettings) -> None:
    asked = {"folder": "小克日记本", "startDate": "2025-11-27", "endDate": "2025.11.28"}
    text = list_notes(asked, settings.root, OPEN)
    assert text.startswith("「小克」2025-11-27 ~ 2025-11-28：3 篇日记")
    addresses = [line[5:-5] for line in text.split("\n") if line.startswith("--- [")]
    assert addresses == ["小克/2025-11-27-08_00_00.txt", "小克/2025.11.28.txt", "小克/想法.md"]
    assert "[2025-11-27] - 小克\n昨天\nTag: b" in text
    merged = {"urls": "\n".join(addresses), "maid": "小克", "Date": "2025-11-28", "Content": "合并\nTag: a"}
    assert len(organize(merged, settings, OPEN).moved) == 3


def test_without_dates_all_notes_are_listed_and_an_empty_range_says_so(settings: DiarySettings) -> None:
    assert "4 篇日记" in list_notes({"folder": "小克"}, settings.root, OPEN)
    assert "没有日记" in list_notes({"folder": "小克", "startDate": "2026-01-01"}, settings.root, OPEN)


def test_a_list_has_a_limit_and_names_what_is_behind_it(
    settings: DiarySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(organizing, "MAX_LISTED_CHARS", 40)
    text = list_notes({"folder": "小克"}, settings.root, OPEN)
    assert text.count("--- [") == 4
    assert "ask for fewer days" in text


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"folder": "没有"},
        {"folder": "小克", "startDate": "soon"},
        {"folder": "小克", "startDate": "2025-11-28", "endDate": "2025-11-27"},
    ],
)
def test_a_list_that_makes_no_sense_is_refused(settings: DiarySettings, asked: dict[str, str]) -> None:
    with pytest.raises(DiaryError):
        list_notes(asked, settings.root, OPEN)


def test_organize_writes_one_note_and_moves_the_sources(settings: DiarySettings) -> None:
    done = organize(
        {
            "urls": "小克/2025-11-26-08_00_00.txt\n\n 小克/2025-11-27-08_00_00.txt \n小克/2025-11-27-08_00_00.txt",
            "maid": "[小克]Nova",
            "Date": "2025-11-28",
            "Content": "两天合起来",
            "Tag": "a、b",
            "fileName": "合并",
        },
        settings,
        OPEN,
    )
    assert done.note.read_text("utf-8") == "[2025-11-28] - Nova\n两天合起来\nTag: a, b"
    assert done.note.parent.name == "小克" and done.note.name.endswith("-合并.txt")
    assert done.moved == ("已整理/2025-11-26-08_00_00.txt", "已整理/2025-11-27-08_00_00.txt")
    assert (settings.root / done.moved[1]).read_text("utf-8").endswith("昨天\nTag: b")
    assert "小克/2025-11-26-08_00_00.txt" not in files(settings)


def test_a_taken_name_in_the_archive_is_not_overwritten(settings: DiarySettings) -> None:
    urls = "小克/2025-11-27-08_00_00.txt\n公共/2025-11-27-08_00_00.txt"
    done = organize({"urls": urls, "maid": "x", "Date": "d", "Content": "c\nTag: t"}, settings, OPEN)
    assert done.moved == ("已整理/2025-11-27-08_00_00.txt", "已整理/2025-11-27-08_00_00_2.txt")
    texts = [(settings.root / name).read_text("utf-8") for name in done.moved]
    assert "昨天" in texts[0] and "公共的" in texts[1]


@pytest.mark.parametrize(
    "change",
    [
        {"urls": "小克/gone.txt"},
        {"urls": "小克/2025-11-26-08_00_00.txt\n../../etc/passwd"},
        {"urls": ""},
        {"urls": "\n".join(f"a/{n}.txt" for n in range(501))},
        {"Content": "no tags"},
        {"maid": ""},
        {"Date": ""},
    ],
)
def test_an_organize_that_cannot_be_done_whole_changes_nothing(settings: DiarySettings, change: dict[str, str]) -> None:
    before = files(settings)
    asked = {"urls": "小克/2025-11-26-08_00_00.txt", "maid": "x", "Date": "d", "Content": "c\nTag: t"} | change
    with pytest.raises(DiaryError):
        organize(asked, settings, OPEN)
    assert files(settings) == before


def test_permissions_hold_for_listing_and_moving(settings: DiarySettings) -> None:
    rules = Permissions({"小克": Rule(frozenset(), frozenset(), own=True)})
    asked = {"urls": "小克/2025-11-26-08_00_00.txt", "maid": "[公共]Nova", "Date": "d", "Content": "c\nTag: t"}
    with pytest.raises(NotPermittedError):
        organize(asked, settings, rules)
    with pytest.raises(NotPermittedError):
        list_notes({"folder": "小克"}, settings.root, rules)
    assert "4 篇" in list_notes({"folder": "小克", "maid": "小克"}, settings.root, rules)


BLOCKS = (
    "前言\r\n2025.05.13.txt\r\n2025.05.13-[公共]小吉\r\n今天野餐。\r\n\r\n2025.05.14.2.txt\n内容二\n2025.05.15.txt\n \n"
)


def test_blocks_of_the_older_form_become_files(settings: DiarySettings) -> None:
    saved, warnings = save_blocks(BLOCKS, settings.root)
    folder = settings.root / "已整理日记"
    assert saved == ["2025.05.13.txt", "2025.05.14.2.txt"]
    assert (folder / saved[0]).read_text("utf-8") == "2025.05.13-[公共]小吉\n今天野餐。"
    assert (folder / saved[1]).read_text("utf-8") == "内容二"
    assert len(warnings) == 1 and "2025.05.15.txt" in warnings[0]


def test_the_older_form_overwrites_nothing_and_repeats_change_nothing(settings: DiarySettings) -> None:
    save_blocks(BLOCKS, settings.root)
    assert save_blocks(BLOCKS, settings.root)[0] == ["2025.05.13.txt", "2025.05.14.2.txt"]
    assert save_blocks("2025.05.13.txt\n别的", settings.root)[0] == ["2025.05.13_2.txt"]
    assert len(list((settings.root / "已整理日记").iterdir())) == 3


@pytest.mark.parametrize("text", ["", "no blocks", "2025.5.13.txt\nx", "../2025.05.13.txt\nx"])
def test_text_without_blocks_is_refused(settings: DiarySettings, text: str) -> None:
    with pytest.raises(DiaryError):
        save_blocks(text, settings.root)
    assert not (settings.root / "已整理日记").exists()
