"""What people read is told in Chinese and in English (D20); the fixed texts of the protocol are as they are."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import ManifestError, VcpError

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for path in (ROOT / "app").rglob("*.py") if path.parent.name != "demo")
"""All but the demo model: it stands in for APIs that speak English."""


BASES = dict(
    found for path in FILES for found in re.findall(r"^class (\w+)\((\w+)", path.read_text("utf-8"), re.MULTILINE)
)


def is_error(name: str) -> bool:
    """Whether a class of the program is one of its errors, by the first of its bases."""
    return name == VcpError.__name__ or (name in BASES and is_error(BASES[name]))


FOR_PEOPLE = {VcpError.__name__, *filter(is_error, BASES)} - {ManifestError.__name__}
"""Errors that reach people; complaints about manifests are lines of the log."""

CHINESE = re.compile("[\u4e00-\u9fff]")


def parsed(source: str) -> ast.Module:
    """The syntax tree of a source.

    Python 3.11 counts the depth of all parsers of a process in one place. A second one that starts in the middle of the
    first, from what a garbage collection calls or lets run, makes the first fail with SystemError.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()


def told_by(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """The first argument of every error for people that is raised or made here, and of every ``message=``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in FOR_PEOPLE and node.args:
                yield node.lineno, node.args[0]
            if node.func.id == "ToolResult":
                yield from ((node.lineno, word.value) for word in node.keywords if word.arg == "message")


def in_one_language(text: ast.expr) -> bool:
    """True for words written in place that are not Chinese too; what comes from elsewhere was judged there."""
    if not isinstance(text, ast.Constant | ast.JoinedStr):
        return False
    source = ast.unparse(text)
    return not (CHINESE.search(source) or "markers." in source or ".message" in source or "__name__" in source)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_error_for_people_is_in_one_language_only(path: Path) -> None:
    tree = parsed(path.read_text(encoding="utf-8"))
    assert [line for line, text in told_by(tree) if in_one_language(text)] == []


def test_an_error_in_one_language_would_be_found() -> None:
    source = 'ConfigError(f"API_URL {x} is empty")\nQueueError(both("空", "empty"))\nBadRequestError(text)'
    found = [(line, in_one_language(text)) for line, text in told_by(parsed(source))]
    assert found == [(1, True), (2, False), (3, False)]


def test_what_a_garbage_collection_parses_does_not_disturb_the_parser() -> None:
    def parse(phase: str, _details: dict[str, int]) -> None:
        ast.parse("a + b")

    source = max((path.read_text(encoding="utf-8") for path in FILES), key=len)
    gc.callbacks.append(parse)
    before = gc.get_threshold()
    gc.set_threshold(5)
    try:
        assert parsed(source).body
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(parse)
