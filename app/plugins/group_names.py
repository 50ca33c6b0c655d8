"""The manifest's field ``groups``: of which groups of tools a plugin is a member."""

from __future__ import annotations

from collections.abc import Callable

from app.extend import Json
from app.protocol.group_names import name_fault

MAX_GROUPS = 20
"""Groups that one plugin may be in."""


def declared_groups(value: Json, complain: Callable[[str], None]) -> frozenset[str]:
    """The names in a text or a list of texts; what is no name is told to ``complain`` and left out."""
    if value is None:
        return frozenset()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        complain("must be a name or a list of names; ignored")
        return frozenset()
    if len(listed) > MAX_GROUPS:
        complain(f"more than {MAX_GROUPS}; the rest is ignored")
    names: set[str] = set()
    for name in listed[:MAX_GROUPS]:
        fault = name_fault(name.strip()) if isinstance(name, str) else None
        if not isinstance(name, str):
            complain("a name that is no text; ignored")
        elif fault is not None:
            complain(f"{name[:40]!r}: {fault.value[1]}; ignored")
        else:
            names.add(name.strip())
    return frozenset(names)
