"""Text files that people edit: what is listed, which names are files, the trash and its age (8.1 BUG, B3, P61)."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.config.edited_file import EditConflictError, FileTooLargeError
from app.config.trash_time import GRACE, deleted_at, new_deletion
from app.errors import BadRequestError, NotFoundError
from app.prompt import edited_texts
from app.prompt.edited_texts import EditedTexts, FileExistsAlreadyError, folder_structure

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)


@pytest.fixture
def texts(tmp_path: Path) -> EditedTexts:
    (tmp_path / "Agent").mkdir()
    return EditedTexts(tmp_path, "Agent", (".txt", ".md"), nested=True)


@pytest.mark.parametrize("name", ["a.txt", "小克　日常.MD", "a b/c (1).txt", "a\\b.txt", "100%.txt", "é.txt"])
def test_names_that_people_give_are_files(texts: EditedTexts, name: str) -> None:
    texts.create(name, "x\r\n")
    assert texts.read(name).text == "x\r\n"
    assert [line.path for line in texts.files().files] == [name.replace("\\", "/")]


REFUSED = (
    *(
        "",
        ".txt",
        "a",
        "a.json",
        "../a.txt",
        "/a.txt",
        "a//b.txt",
        "a/../b.txt",
        ".a.txt",
        "a\0.txt",
        "a\n.txt",
        " .txt/",
    ),
    *("x" * 252 + ".txt", "/".join("x" * 17) + ".txt", "x/" * 600 + "a.txt", "字" * 90 + ".txt"),
)


@pytest.mark.parametrize("name", REFUSED)
def test_all_else_is_refused_before_the_disk_is_asked(texts: EditedTexts, name: str) -> None:
    for use in (texts.read, texts.create, texts.exists):
        with pytest.raises(BadRequestError):
            use(name)
    assert texts.files().files == ()


def test_links_are_followed_inside_and_refused_outside(texts: EditedTexts, tmp_path: Path) -> None:
    texts.create("real.txt", "real")
    (tmp_path / "secret.txt").write_text("secret")
    (texts.root / "inside.txt").symlink_to("real.txt")
    (texts.root / "outside.txt").symlink_to("../secret.txt")
    (texts.root / "circle.txt").symlink_to("circle.txt")
    assert [line.path for line in texts.files().files] == ["inside.txt", "real.txt"]
    texts.write("inside.txt", "new", None)
    assert (texts.root / "inside.txt").is_symlink()
    assert texts.read("real.txt").text == "new"
    with pytest.raises(BadRequestError):
        texts.write("outside.txt", "x", None)
    assert (tmp_path / "secret.txt").read_text() == "secret"


def test_a_list_has_a_limit_and_says_so(texts: EditedTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edited_texts, "MAX_FILES", 3)
    for number in range(5):
        texts.create(f"{number}.txt")
    assert (len(texts.files().files), texts.files().complete) == (3, False)


def test_folders_that_cannot_be_read_hide_themselves_only(texts: EditedTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    texts.create("a.txt")
    texts.create("closed/b.txt")
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("app.prompt.edited_texts.os.scandir", refuse)
    listed = texts.files()
    assert ([line.path for line in listed.files], listed.complete) == (["a.txt"], False)


def test_versions_keep_writers_from_each_other(texts: EditedTexts) -> None:
    first = texts.write("a.txt", "1", "")
    texts.write("a.txt", "2", first)
    with pytest.raises(EditConflictError) as conflict:
        texts.write("a.txt", "3", first)
    assert conflict.value.content == "2"
    with pytest.raises(FileTooLargeError):
        texts.write("a.txt", "x" * (8 * 1024 * 1024 + 1), None)
    assert texts.read("a.txt").text == "2"


def test_a_file_in_the_place_of_a_folder_is_told(texts: EditedTexts) -> None:
    texts.create("a.txt")
    with pytest.raises(BadRequestError):
        texts.create("a.txt/b.txt")
    (texts.root / "folder.txt").mkdir()
    for use in (lambda: texts.write("folder.txt", "x", None), lambda: texts.read("folder.txt")):
        with pytest.raises((BadRequestError, NotFoundError)):
            use()


def test_what_is_deleted_comes_back_until_it_is_too_old(texts: EditedTexts) -> None:
    texts.create("a/b.txt", "kept")
    old = texts.delete("a/b.txt", NOW, 30)
    assert deleted_at(old) == NOW
    assert [(one.id, one.path) for one in texts.trash()] == [(old, "a/b.txt")]
    texts.create("a/b.txt", "newer")
    with pytest.raises(FileExistsAlreadyError):
        texts.restore(old)
    later = texts.delete("a/b.txt", NOW + timedelta(days=29), 30)
    assert {one.id for one in texts.trash()} == {old, later}
    assert texts.restore(old) == "a/b.txt"
    assert texts.read("a/b.txt").text == "kept"
    texts.create("c.txt")
    due = texts.delete("c.txt", NOW + timedelta(days=100), 30)
    assert {one.id: one.path for one in texts.trash()} == {later: "a/b.txt", due: "c.txt"}, "the clock may be wrong"
    texts.create("c.txt")
    last = texts.delete("c.txt", NOW + timedelta(days=100) + GRACE, 30)
    assert {one.id for one in texts.trash()} == {due, last}
    texts.create("d.txt")
    assert texts.delete("d.txt", NOW, 0) == ""
    assert not texts.exists("d.txt")
    assert {one.id for one in texts.trash()} == {due, last}
    for bad in ("../../Agent", "", last + "/x", "2026-01-01T00-00-00-000Z"):
        with pytest.raises(NotFoundError):
            texts.restore(bad)


def test_deletions_of_one_moment_have_names_of_their_own(tmp_path: Path) -> None:
    names = [new_deletion(tmp_path, NOW) for _ in range(3)]
    assert names == ["2026-01-02T03-04-05-678Z", "2026-01-02T03-04-05-678Z_2", "2026-01-02T03-04-05-678Z_3"]
    assert deleted_at("2026-13-45T99-99-99-999Z") is None


def test_a_tree_of_paths_keeps_folders_and_files_apart() -> None:
    assert folder_structure(["a/b.txt", "c.txt"]) == {
        "a": {"type": "folder", "children": {"b.txt": {"type": "file", "path": "a/b.txt"}}},
        "c.txt": {"type": "file", "path": "c.txt"},
    }
