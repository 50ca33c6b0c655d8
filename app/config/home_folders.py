"""The folders of an installation."""

from __future__ import annotations

from pathlib import Path

from app.errors import ConfigError, both

NOTEBOOKS = "dailynote"
"""Folder of the notebooks where nothing else is said."""

HOME_FOLDERS = ("Plugin", "Agent", "TVStxt", NOTEBOOKS, "image", "file", "VCPTimedContacts", "VCPTimedResults")
"""Folders that an installation has; missing ones are made at start."""


def notebooks_folder(home: Path, root_path: str) -> Path:
    """The folder of the notebooks: ``KNOWLEDGEBASE_ROOT_PATH`` below the home or absolute, else ``dailynote``."""
    return home / (root_path.strip() or NOTEBOOKS)


def home_folders(home: Path, notebooks: Path) -> tuple[str, ...]:
    """The folders of this installation, by their names below it.

    Notebooks outside of the home are not among them: a drive that is not there must not become an empty folder.
    """
    if notebooks == home / NOTEBOOKS:
        return HOME_FOLDERS
    own = (notebooks.relative_to(home).as_posix(),) if home in notebooks.parents else ()
    return (*(name for name in HOME_FOLDERS if name != NOTEBOOKS), *own)


def make_home(home: Path, notebooks: Path | None = None) -> None:
    """Make the folders of an installation that are missing; ConfigError when one of them cannot be made.

    ``notebooks`` is their folder where it is not ``dailynote``.
    """
    for folder in (home / name for name in home_folders(home, notebooks or home / NOTEBOOKS)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                both(
                    f"无法创建目录 {folder}，请手动创建，或用 --home 指定其他目录",
                    f"{folder} is no folder and cannot be made ({error.strerror or error}); make it, or choose another "
                    "home with --home",
                )
            ) from error
