"""What the soak holds against far nodes: calls that were made twice, or acknowledged and not made."""

from __future__ import annotations

from pathlib import Path

from bench.outposts import Outposts


def test_calls_that_ran_twice_or_never_are_faults(tmp_path: Path) -> None:
    outposts = Outposts(tmp_path / "home", tmp_path / "nodes", lambda _: None)
    outposts.done |= {"a", "b"}
    (tmp_path / "nodes" / "north" / "effects.log").write_text("a\nc\n")
    assert outposts.faults() == ["b was acknowledged and did not run"]
    (tmp_path / "nodes" / "south" / "effects.log").write_text("b\nc\n")
    assert outposts.faults() == ["c ran 2 times on nodes"]
