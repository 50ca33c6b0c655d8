"""Where the tools of a stand-alone server may work (STD-8 … STD-14)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from app.mcp.stdio.roots import Root

DECLARED = {"root": {"type": "string"}, "src": {"type": "string"}}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "root" / "books").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    return Root((tmp_path / "root").resolve())


def test_a_tool_that_declares_neither_is_left_alone(root: Root) -> None:
    assert root.confined({"root": "/etc", "src": "/etc/passwd"}, {"book": {}}) == {"root": "/etc", "src": "/etc/passwd"}


@pytest.mark.parametrize("given", [{}, {"root": ""}, {"root": None}])
def test_an_absent_root_is_put_in(root: Root, given: dict[str, Any]) -> None:
    """STD-8."""
    assert root.confined(given, DECLARED) == {"root": str(root.real)}


def test_arguments_of_the_wrong_type_are_left_to_the_schema(root: Root) -> None:
    given = {"root": ["/etc"], "src": {"a": 1}}
    assert root.confined(given, DECLARED) == given


@pytest.mark.parametrize("written", [".", "books", "books/", "./books/../books", "later/is/made"])
def test_paths_inside_are_those_of_the_root(root: Root, written: str) -> None:
    """STD-9, STD-13."""
    assert root.inside(written) == (root.real / os.path.normpath(written))


@pytest.mark.parametrize("written", ["..", "/", "/etc/passwd", "../rootx", "books/../../outside", "a\0"])
def test_all_others_are_outside(root: Root, written: str) -> None:
    """STD-10, STD-13."""
    assert root.inside(written) is None


def test_real_paths_count_on_the_way_in_and_out(root: Root, tmp_path: Path) -> None:
    """STD-14: a link that leads out is outside, one that leads in is inside, and a circle raises nothing."""
    (root.real / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "in").symlink_to(root.real / "books")
    (root.real / "circle").symlink_to(root.real / "circle")
    assert root.inside("out") is None
    assert root.inside("out/new") is None
    assert root.inside(str(tmp_path / "in")) == root.real / "books"
    assert root.inside("out/../root/books") == root.real / "books"  # as the system follows it
    assert root.inside("circle/x") in (None, root.real / "circle" / "x")


def test_a_source_is_looked_for_below_the_root_of_its_call(root: Root) -> None:
    """STD-11."""
    assert root.confined({"root": "books", "src": "../x.txt"}, DECLARED) is not None
    assert root.confined({"root": "books", "src": "../../x.txt"}, DECLARED) is None
    assert root.confined({"src": "../outside/x.txt"}, DECLARED) is None


def test_the_switch_is_for_sources_alone(root: Root) -> None:
    """STD-6, STD-12: it never lifts the rule of the root."""
    free = Root(root.real, external_sources=True)
    assert free.confined({"root": "/etc", "src": "/etc/x"}, DECLARED) == {"root": str(root.real), "src": "/etc/x"}
