"""Where the files of groups, notebook tags and chains lie (memory.md 5.1, 5.2, 5.5)."""

from __future__ import annotations

from pathlib import Path

FILE_LIMIT = 4 * 2**20
"""Bytes; a larger file is not read."""

PLUGIN_FOLDER = ("Plugin", "RAGDiaryPlugin")
"""The reference's place: files of an installation that is taken over are used where they are."""

OWN_FOLDER = "memory"


def enhancement_folder(home: Path) -> Path:
    """``Plugin/RAGDiaryPlugin`` of the home where it exists, else ``memory`` of the home."""
    taken_over = home.joinpath(*PLUGIN_FOLDER)
    return taken_over if taken_over.is_dir() else home / OWN_FOLDER
