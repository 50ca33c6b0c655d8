"""Names of tool groups: they stand in one line of a prompt and between the braces of a placeholder."""

from __future__ import annotations

from enum import Enum

MAX_GROUP_NAME = 100
"""Characters of the name of a group."""

_MARKS = frozenset("{}「」")
"""What placeholders and the values of calls begin and end with."""


class NameFault(Enum):
    """Why a text is no name of a group; the value says it in Chinese and in English."""

    EMPTY = ("组名为空", "the name is empty")
    MARGIN = ("组名首尾有空白", "the name begins or ends with white space")
    LONG = (f"组名超过 {MAX_GROUP_NAME} 字", f"the name has more than {MAX_GROUP_NAME} characters")
    UNSEEN = ("组名含控制字符或不可见字符", "the name has control characters, or such as nobody sees")
    MARKS = ("组名不能含花括号、「 或 」", "the name must not hold braces, 「 or 」")


def name_fault(name: str) -> NameFault | None:
    """What is wrong with the name of a group, if anything."""
    if not name.strip():
        return NameFault.EMPTY
    if name != name.strip():
        return NameFault.MARGIN
    if len(name) > MAX_GROUP_NAME:
        return NameFault.LONG
    if not name.isprintable():
        return NameFault.UNSEEN
    if not _MARKS.isdisjoint(name):
        return NameFault.MARKS
    return None
