"""The one error of this plugin."""

from __future__ import annotations


class NoteError(Exception):
    """The note cannot be stored. The text says why and what helps, in Chinese and English."""

    def __init__(self, chinese: str, english: str) -> None:
        super().__init__(f"{chinese} / {english}")
