"""What the caller is told when there is no digest."""

from __future__ import annotations


class DigestError(Exception):
    """The digest cannot be made; the text is for people, in Chinese and in English."""

    def __init__(self, chinese: str, english: str) -> None:
        super().__init__(f"{chinese} / {english}")
