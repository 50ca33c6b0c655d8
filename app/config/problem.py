"""What is wrong with a configuration, told in one clear line each; never a reason to stop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One complaint: where it is, which key, what is wrong and what is done instead.

    ``file`` is a path, or words such as ``environment``; ``line`` counts from 1; ``key`` is empty when the whole file
    is meant.
    """

    file: str
    line: int | None
    key: str
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.reason}" if self.key else f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A problem whose place is not known yet: readers of values know keys, only the snapshot knows files and lines."""

    key: str
    reason: str
