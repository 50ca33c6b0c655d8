"""Edits of diaries by text (memory.md 1.6 ``update``; B3, P45, P50)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.memory.diaries import edits, nearest
from app.memory.diaries.edits import Edit, edit_diary
from app.memory.diaries.files import DiaryError
from app.memory.diaries.nearest import MAX_PASSAGE_CHARS, Nearest
from app.memory.diaries.permissions import NotPermittedError
from app.memory.diaries.requests import MAX_CONTENT_BYTES

TARGET = "the river was high today"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    diaries = tmp_path / "dailynote"
    for name, text in {
        "Nova/2025-01-01-08_00_00.txt": f"[2025-01-01] - Nova\nfirst, {TARGET}, {TARGET}\nTag: a",
        "Nova/2025-01-02-08_00_00.txt": f"second, {TARGET}",
        "Nova的知识/a.md": f"knowledge, {TARGET}",
        "公共/a.txt": f"shared, {TARGET}",
        "公共/.hidden.txt": f"hidden, {TARGET}",
        "公共/b.json": f"data, {TARGET}",
    }.items():
        path = diaries / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return diaries


def edited(root: Path, **more: str) -> str:
    return str(edit_diary(root, Edit(**({"target": TARGET, "replacement": "NEW"} | more))).relative_to(root))


def test_the_first_occurrence_in_the_first_note_is_replaced_and_nothing_else(root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert edited(root, maid="Nova") == "Nova/2025-01-01-08_00_00.txt"
    changed = {path for path, data in before.items() if path.read_bytes() != data}
    assert [path.read_text("utf-8") for path in changed] == [f"[2025-01-01] - Nova\nfirst, NEW, {TARGET}\nTag: a"]


@pytest.mark.parametrize(
    ("where", "note"),
    [
        ({}, "Nova/2025-01-01-08_00_00.txt"),
        ({"maid": "Nova"}, "Nova/2025-01-01-08_00_00.txt"),
        ({"maid": "Nova的"}, "Nova的知识/a.md"),
        ({"maid": "[公共]小克"}, "公共/a.txt"),
        ({"maid": "[公共]"}, "公共/a.txt"),
        ({"maid": "小克", "folder": "公共"}, "公共/a.txt"),
    ],
)
def test_the_maid_or_the_folder_says_where_is_searched(root: Path, where: dict[str, str], note: str) -> None:
    assert edited(root, **where) == note


@pytest.mark.parametrize("target", ["short", "x" * 14, "汉" * 14, "😀" * 7])
def test_a_short_target_is_refused(root: Path, target: str) -> None:
    with pytest.raises(DiaryError, match="at least 15"):
        edited(root, target=target)


def test_the_length_is_counted_in_utf_16_units(root: Path) -> None:
    with pytest.raises(DiaryError, match="no note contains"):
        edited(root, target="😀" * 8)


@pytest.mark.parametrize(
    "where", [{"maid": "[../outside]x"}, {"folder": "../outside"}, {"folder": ".."}, {"maid": "[]x"}]
)
def test_no_name_leads_out_of_the_diary_folder(root: Path, where: dict[str, str]) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text(TARGET, "utf-8")
    with pytest.raises(DiaryError, match="no notebook called"):
        edited(root, **where)
    assert (outside / "a.txt").read_text("utf-8") == TARGET


def test_links_out_of_the_diary_folder_are_not_followed(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text(TARGET, "utf-8")
    (root / "Alink").symlink_to(outside)
    (root / "公共/0.txt").symlink_to(outside / "a.txt")
    assert edited(root, maid="公共") == "公共/a.txt"
    with pytest.raises(DiaryError, match="begins with"):
        edited(root, maid="Alink")
    assert (outside / "a.txt").read_text("utf-8") == TARGET


def test_windows_line_ends_are_found_and_kept(root: Path) -> None:
    note = root / "公共/a.txt"
    note.write_bytes(b"one long line here\r\nanother long line\r\nend")
    assert edited(root, maid="公共", target="line here\nanother long", replacement="x\ny") == "公共/a.txt"
    assert note.read_bytes() == b"one long x\r\ny line\r\nend"


def test_notes_that_cannot_be_read_are_passed_over_and_named(root: Path) -> None:
    (root / "公共/0.txt").write_bytes(b"\xff\xfe" + TARGET.encode())
    (root / "公共/1.txt").write_bytes(b"x" * (MAX_CONTENT_BYTES + 1))
    assert edited(root, maid="公共") == "公共/a.txt"
    with pytest.raises(DiaryError, match=r"not readable: 公共/0\.txt, 公共/1\.txt"):
        edited(root, maid="公共", target="nowhere to be found at all")


def test_a_note_does_not_grow_beyond_the_limit(root: Path) -> None:
    with pytest.raises(DiaryError, match="too large"):
        edited(root, maid="公共", replacement="x" * MAX_CONTENT_BYTES)


def test_an_endless_diary_is_not_searched_for_ever(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "MAX_FILES", 2)
    with pytest.raises(DiaryError, match="more than 2 notes"):
        edited(root, target="nowhere to be found at all")


def test_an_installation_without_diaries_has_no_notebook(tmp_path: Path) -> None:
    with pytest.raises(DiaryError, match="no notebook"):
        edited(tmp_path / "dailynote")


def test_edits_that_meet_all_hold(root: Path) -> None:
    note = root / "Nova" / "2025-01-01-08_00_00.txt"
    marks = [f"<mark number {number:02d} of twenty>" for number in range(20)]
    note.write_text("\n".join(marks), "utf-8")

    def change(number: int) -> None:
        edit_diary(root, Edit(target=marks[number], replacement=f"done {number}", maid="[Nova]"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(20)))
    assert note.read_text("utf-8").split("\n") == [f"done {number}" for number in range(20)]


def test_a_notebook_is_found_by_the_name_people_call_it(root: Path) -> None:
    """1.1: 公共 is addressed as 公共日记本; width and case do not matter."""
    assert edited(root, maid="[公共日记本]x") == "公共/a.txt"
    assert edited(root, folder="ＮＯＶＡ的知识日记本") == "Nova的知识/a.md"


def test_notebooks_that_may_not_be_written_are_not_changed(root: Path) -> None:
    edit = Edit(TARGET, "NEW")
    assert edit_diary(root, edit, lambda name: name == "公共").parent.name == "公共"
    with pytest.raises(NotPermittedError):
        edit_diary(root, edit, lambda _name: False)


def test_the_nearest_passage_is_reported_when_that_is_wanted(root: Path) -> None:
    """1.6 DAILY_NOTE_FUZZY_DIFF."""
    (root / "公共/c.txt").write_text("今天在河边走了很久，遇到一只白鹭。\n别的话\n", "utf-8")
    edit = Edit(target="今天在河边走了好久，遇见一只白鹭", replacement="x")
    with pytest.raises(DiaryError) as told:
        edit_diary(root, edit, nearest=True)
    assert "公共/c.txt" in told.value.message
    assert "走了[-好-]{+很+}久，遇[-见-]{+到+}一只白鹭" in told.value.message
    with pytest.raises(DiaryError) as plain:
        edit_diary(root, edit)
    assert "c.txt" not in plain.value.message
    with pytest.raises(DiaryError) as nothing:
        edit_diary(root, Edit(target="zzzz qqqq xxxx wwww", replacement="x"), nearest=True)
    assert "nearest" not in nothing.value.message


def test_looking_for_the_nearest_passage_has_limits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passages that are too long are passed over, and behind so many characters in all nothing is looked at."""
    alike = "今天在河边走了很久，遇到一只白鹭"
    (root / "公共/d.txt").write_text("x" * MAX_PASSAGE_CHARS + alike, "utf-8")
    (root / "公共/e.txt").write_text("ab" * 1400 + "\n" + "\n".join(["a" * 200] * 20_000), "utf-8")
    found = Nearest("今天在河边走了好久，遇见一只白鹭")
    for name in ("d.txt", "e.txt"):
        found.look(name, (root / "公共" / name).read_text("utf-8"))
    assert found.report() == ""
    monkeypatch.setattr(nearest, "MAX_COMPARED_CHARS", 100)
    bounded = Nearest(alike)
    bounded.look("a.txt", "别的\n" * 30)
    bounded.look("b.txt", alike)
    assert "b.txt" in bounded.report()
    bounded.look("c.txt", "别的\n" * 30)
    late = Nearest(alike)
    late.look("a.txt", "别的\n" * 60)
    late.look("b.txt", alike)
    assert late.report() == ""
    with pytest.raises(DiaryError):
        edit_diary(root, Edit(target="ab" * 5000 + "c", replacement="x"), nearest=True)
