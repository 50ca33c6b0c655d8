"""The folders of an installation."""

from __future__ import annotations

from pathlib import Path

from app.config.home_folders import HOME_FOLDERS, make_home


def test_the_folders_of_an_installation_are_made_and_what_is_there_stays(tmp_path: Path) -> None:
    home = tmp_path / "new" / "我的 home"
    (home / "Agent").mkdir(parents=True)
    (home / "Agent" / "Nova.txt").write_text("hi", encoding="utf-8")
    for _ in range(2):
        make_home(home)
    assert sorted(path.name for path in home.iterdir()) == sorted(HOME_FOLDERS)
    assert (home / "Agent" / "Nova.txt").read_text(encoding="utf-8") == "hi"
