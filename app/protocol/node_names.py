"""Names of far nodes: they stand in front of a ``#`` in names of tools, in tables and on command lines."""

from __future__ import annotations

NODE_NAME_CHARS = 64
"""Longest name."""

_MARKS = frozenset("-_.")


def is_node_name(name: str) -> bool:
    """True for letters and digits of any script, ``-``, ``_`` and ``.``, a letter or digit first, 64 at most."""
    return (
        0 < len(name) <= NODE_NAME_CHARS
        and name[0].isalnum()
        and all(character.isalnum() or character in _MARKS for character in name)
    )
