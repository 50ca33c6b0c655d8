"""The folders of an installation."""

from __future__ import annotations

from pathlib import Path

from app.errors import ConfigError, both

HOME_FOLDERS = ("Plugin", "Agent", "TVStxt", "dailynote", "image", "file", "VCPTimedContacts", "VCPTimedResults")
"""Folders that an installation has; missing ones are made at start."""


def make_home(home: Path) -> None:
    """Make the folders of an installation that are missing; ConfigError when one of them cannot be made."""
    for folder in (home / name for name in HOME_FOLDERS):
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
