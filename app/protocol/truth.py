"""Yes and no as models and people write them, for the arguments of tools (memory.md 6.1)."""

from __future__ import annotations

from app.protocol.blanks import trimmed

YES = frozenset(["true", "1", "yes", "y", "on", "是", "开", "开启", "启用", "真", "需要", "要"])
NO = frozenset(
    ["false", "0", "no", "n", "off", "none", "null", "否", "关", "关闭", "禁用", "假", "不", "不需要", "不要"]
)


def truth(value: object, default: bool = False) -> bool:
    """What is meant; numbers are true unless they are 0, and ``default`` stands for what says neither."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value != 0
    if not isinstance(value, str):
        return default
    word = trimmed(value).lower()
    return word in YES or (default and word not in NO)
