"""What runs plugins of one kind: stdio processes, static values, in-process modules."""

from __future__ import annotations

from typing import Protocol

from app.plugins.discovery import PluginSet


class PluginHost(Protocol):
    """Gets every set of plugins that is found and picks those of its kind."""

    async def replace(self, plugins: PluginSet) -> None:
        """Serve this set from now on. What is equal to what it was is left alone (spec 5.11); never raises.

        Also called with an equal set when only the server's own settings are new, since plugins read those too.
        """
        ...
