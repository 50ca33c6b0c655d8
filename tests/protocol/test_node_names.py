"""Names of nodes: what may stand in front of a ``#``."""

from __future__ import annotations

import pytest

from app.protocol.node_names import NODE_NAME_CHARS, is_node_name


@pytest.mark.parametrize("name", ["workshop", "工作站", "a", "A-1_b.c", "7", "n" * NODE_NAME_CHARS, "büro"])
def test_a_name_that_a_node_can_have(name: str) -> None:
    assert is_node_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a#b", "a b", "a\n", "\x00", "-rf", ".", "..", ".vcp", "_x", "a/b", "a\\b", "../a", "a:b", "a,b"),
        *("n" * (NODE_NAME_CHARS + 1), "\ud800", "a\x1b[31m", "a\u202eb", "a\u200bb"),
    ],
)
def test_a_name_that_no_node_can_have(name: str) -> None:
    assert not is_node_name(name)
