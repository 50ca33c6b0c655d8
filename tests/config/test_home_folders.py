"""The folders of an installation."""

from __future__ import annotations

from pathlib import Path

from app.config.home_folders import HOME_FOLDERS, make_home, notebooks_folder


def test_the_folders_of_an_installation_are_made_and_what_is_there_stays(tmp_path: Path) -> None:
    home = tmp_path / "new" / "我的 home"
    (home / "Agent").mkdir(parents=True)
    (home / "Agent" / "Nova.txt").write_text("hi", encoding="utf-8")
    for _ in range(2):
        make_home(home)
    assert sorted(path.name for path in home.iterdir()) == sorted(HOME_FOLDERS)
    assert (home / "Agent" / "Nova.txt").read_text(encoding="utf-8") == "hi"


def test_notebooks_may_lie_elsewhere_and_are_only_made_inside_of_the_home(tmp_path: Path) -> None:
    home, drive = tmp_path / "home", tmp_path / "drive" / "notes"
    assert notebooks_folder(home, " ") == home / "dailynote"
    make_home(home, notebooks_folder(home, "data/notes"))
    assert (home / "data" / "notes").is_dir()
    make_home(home, notebooks_folder(home, str(drive)))
    assert not drive.parent.exists(), "a drive that is not there is no empty folder: its notes would count as deleted"
    assert not (home / "dailynote").exists()
