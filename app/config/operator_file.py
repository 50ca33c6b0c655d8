"""JSON files of the operator, edited as text and checked before they are saved; everything here blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.config.edited_file import EditedFile, FileTooLargeError, read_edited, write_edited
from app.config.json_file import JsonFileError
from app.config.problem import Problem
from app.errors import BadRequestError, both

NEW_MODE = 0o600
"""Rights of a file that is made: it may hold secrets."""

Check = Callable[[bytes], Sequence[Problem]]
"""What is odd in a content; raises JsonFileError when it is of no use."""


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """One such file, of at most ``limit`` bytes. ``empty`` is what an editor begins with while there is none."""

    path: Path
    limit: int
    check: Check
    empty: str

    def read(self) -> EditedFile:
        """Its text, or ``empty`` with an empty fingerprint. Raises OSError, FileTooLargeError."""
        try:
            return read_edited(self.path, self.limit)
        except FileNotFoundError:
            return EditedFile(self.empty, "")

    def problems(self, text: str) -> tuple[str, ...]:
        """What is odd in a text, in words; of a text that cannot be used that alone."""
        try:
            return tuple(_said(problem) for problem in self.check(text.encode("utf-8", "surrogatepass")))
        except JsonFileError as error:
            return (_fault(error),)

    def save(self, text: str, expected: str | None, lock: Path) -> tuple[str, tuple[str, ...]]:
        """Save a text that can be used: the new fingerprint, and what is odd.

        Raises BadRequestError for one that cannot be used, FileTooLargeError, EditConflictError, OSError, TimeoutError.
        """
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > self.limit:
            raise FileTooLargeError(
                both(f"{self.path.name} 超过 {self.limit} 字节", f"{self.path.name} has more than {self.limit} bytes")
            )
        try:
            odd = tuple(_said(problem) for problem in self.check(data))
        except JsonFileError as error:
            raise BadRequestError(both("没有保存", "nothing was saved") + f": {_fault(error)}") from None
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = self.path.stat().st_mode & 0o777 if self.path.exists() else NEW_MODE
        return write_edited(self.path, text, expected, lock, mode=mode), odd


def _said(problem: Problem) -> str:
    place = f"{problem.line}: " if problem.line is not None else ""
    return f"{place}{problem.key}: {problem.reason}" if problem.key else f"{place}{problem.reason}"


def _fault(error: JsonFileError) -> str:
    if error.line is None:
        return error.message
    return both(f"第 {error.line} 行", f"line {error.line}") + f": {error.message}"
