"""Each rule of the protocol here is quoted by a test, or listed in docs/mcp.md with the reason why not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/mcp.md"

SERIES: dict[str, tuple[tuple[int, int], ...]] = {
    "MOD": ((1, 19),),
    "MCP": ((1, 17), (20, 31), (40, 47), (50, 58), (60, 63), (70, 79)),
    "STD": ((1, 51),),
}
"""The numbers that there are, first and last of each run."""

RULES = {
    f"{series}-{number}" for series, runs in SERIES.items() for first, last in runs for number in range(first, last + 1)
}
HEADING = "### Not proven here"


def quoted(text: str) -> set[str]:
    """The rules that a test file names, as ``MCP-7`` or in a function's name."""
    written = re.findall(r"\b(MOD|MCP|STD)-(\d+)\b", text)
    named = [
        (series.upper(), number)
        for name in re.findall(r"def (test_\w+)", text)
        for series, number in re.findall(r"_(mod|mcp|std)_(\d+)", name)
    ]
    return {f"{series}-{number}" for series, number in written + named}


def listed() -> dict[str, str]:
    """The rules of the list in the document, with their reasons."""
    section = DOCUMENT.read_text(encoding="utf-8").split(HEADING, 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| ([^|]*\d[^|]*) \| ([^|]+) \|$", section, re.MULTILINE)
    return {rule: reason for rules, reason in rows for rule in quoted(rules)}


def test_every_rule_is_quoted_by_a_test_or_listed_with_a_reason() -> None:
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    proven = set().union(*(quoted(path.read_text(encoding="utf-8")) for path in tests))
    reasons = listed()
    assert sorted(RULES - proven - reasons.keys()) == []
    assert sorted(reasons.keys() & proven) == [], "listed as not proven, but a test quotes it"
    assert sorted((proven | reasons.keys()) - RULES) == [], "there is no such rule"
    assert all(len(reason) > 20 for reason in reasons.values())


def test_every_test_file_that_the_rules_name_exists() -> None:
    rules = DOCUMENT.read_text(encoding="utf-8").split("\n## Rules", 1)[1]
    names = {path.name for path in (ROOT / "tests").rglob("*.py")}
    for name in re.findall(r"`([\w/]*test_\w+\.py)`", rules):
        assert (ROOT / name).is_file() if "/" in name else name in names, name
    for folder in re.findall(r"`(tests/[\w/]+/)`", rules):
        assert (ROOT / folder).is_dir(), folder
