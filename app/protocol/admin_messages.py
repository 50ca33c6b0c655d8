"""What the routes of administrators say on success, where existing panels and scripts look at it (vcp-core 8.2)."""

from __future__ import annotations


def plugin_switched(name: str, *, enabled: bool, already: bool) -> str:
    """Of ``POST /plugins/:name/toggle``, to the letter."""
    if already:
        return f"插件 {name} 已经是{'启用' if enabled else '禁用'}状态。"
    return f"插件 {name} 已{'启用' if enabled else '禁用'}。"
