"""Each improvement, vector and decision of memory is quoted by a test that docs/memory.md names, or has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/memory.md"
HEADING = "## Rules and where they are proven"

SERIES = {"D": 22, "C": 7, "K": 7, "T": 20, "G": 12, "M": 10, "V": 5, "F": 4}
"""How many vectors there are of each kind (memory.md 10)."""

EXPECTED = {
    "Improvements": {f"11.{number}" for number in range(1, 32)},
    "Vectors": {f"{kind}{number}" for kind, last in SERIES.items() for number in range(1, last + 1)},
    "Decisions": {f"D{number}" for number in (9, 16, 18, 20, 36, 77, 78, 79, 80, 81, 82, 83, 88)},
}


def rows(part: str) -> Iterator[tuple[list[str], str]]:
    """The numbers of each row of a table, and its last cell."""
    section = DOCUMENT.read_text(encoding="utf-8").split(HEADING, 1)[1].split(f"\n### {part}\n", 1)[1]
    for line in section.split("\n### ", 1)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if re.search(r"\d", cells[0]):
            yield list(numbers(cells[0])), cells[-1]


def numbers(cell: str) -> Iterator[str]:
    """``D1 to D3, G6`` is D1, D2, D3, G6."""
    for piece in cell.split(","):
        first, _, last = piece.strip().partition(" to ")
        if not last:
            yield first
            continue
        kind = first[0]
        assert kind == last[0]
        yield from (f"{kind}{number}" for number in range(int(first[1:]), int(last[1:]) + 1))


def quotes(text: str, number: str) -> bool:
    """Whether a test file names it: ``11.4``, ``D14``, or ``_d14_`` in a function's name."""
    named = number.replace(".", "_").lower()
    return bool(
        re.search(rf"(?<![\w.\-]){re.escape(number)}(?![\w\-]|\.\d)", text)
        or re.search(rf"def test_\w*(?<![0-9a-z]){named}(?![0-9a-z])", text)
    )


@pytest.mark.parametrize("part", EXPECTED)
def test_every_number_has_a_row_and_every_row_is_one_that_there_is(part: str) -> None:
    listed = [number for found, _ in rows(part) for number in found]
    assert sorted(EXPECTED[part] - set(listed)) == []
    assert sorted(set(listed) - EXPECTED[part]) == [], "there is no such number"


@pytest.mark.parametrize("part", EXPECTED)
def test_every_number_is_quoted_by_a_test_of_its_row_or_has_a_reason(part: str) -> None:
    unproven: list[str] = []
    for found, cell in rows(part):
        files = [ROOT / name for name in re.findall(r"`(tests/[\w/]+\.py)`", cell)]
        if not files:
            assert len(cell) > 40, f"{found}: neither a test nor a reason"
            continue
        texts = [file.read_text(encoding="utf-8") for file in files]
        unproven += [number for number in found if not any(quotes(text, number) for text in texts)]
    assert unproven == []


def test_every_file_and_folder_that_is_named_exists() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split(HEADING, 1)[1]
    names = re.findall(r"`(tests/[\w/.]+)`", section)
    assert len(names) > 80
    assert [name for name in names if not (ROOT / name).exists()] == []
