"""What is new in a configuration or in a set of plugins, in names only: values may be secrets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.config.snapshot import Config
from app.plugins.discovery import PluginSet

MAX_NAMES = 20
"""Names in one sentence; the rest is counted."""

MAX_NAME_CHARS = 100


def config_changes(before: Config, now: Config) -> tuple[str, ...]:
    """The keys of ``config.env`` that are new, gone or have another value; order alone counts too (spec 2.3)."""
    keys = _changed(before.environ, now.environ)
    if keys:
        return keys
    return ("order of the keys",) if tuple(before.environ) != tuple(now.environ) else ()


def plugin_changes(before: PluginSet, now: PluginSet) -> tuple[str, ...]:
    """What became of the plugins, as ``added A, B``, ``changed C`` and the like; empty when all are equal."""
    old = {plugin.name: plugin for plugin in before.plugins}
    new = {plugin.name: plugin for plugin in now.plugins}
    kinds = {
        "added": [name for name in new if name not in old],
        "changed": [name for name in new if name in old and new[name] != old[name]],
        "removed": [name for name in old if name not in new],
    }
    said = tuple(f"{kind} {listed(names)}" for kind, names in kinds.items() if names)
    return said if said or tuple(old) == tuple(new) else ("order of the plugins",)


def listed(names: Iterable[str], longest: int = MAX_NAME_CHARS) -> str:
    """Names for one line of the log, at most ``MAX_NAMES`` of them, each cut at ``longest`` characters."""
    every = list(names)
    shown = [name if len(name) <= longest else name[:longest] + "…" for name in every[:MAX_NAMES]]
    more = len(every) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(key for key in dict.fromkeys((*before, *now)) if before.get(key) != now.get(key))
