"""The end of the server that is not its last: who asks for it, and what has to be right before (D87)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.config.keys import check_bind, check_tool_port
from app.config.snapshot import Config
from app.errors import VcpError, both


class RestartUnavailableError(VcpError):
    """Nobody starts this server again."""

    status = 503
    code = "restart_unavailable"


class Restart:
    """Begins a restart, once. ``read_config`` reads the configuration that the next start would have; it blocks.

    Who runs the server says with ``on_asked`` how its end begins; until then there is no restart. When it has ended,
    ``exits`` says whether a supervisor starts it again, or it does so itself.
    """

    def __init__(self, read_config: Callable[[], Config]) -> None:
        self._read_config = read_config
        self._begin: Callable[[], object] | None = None
        self.asked = False
        self.exits = False

    def on_asked(self, begin: Callable[[], object]) -> None:
        """``begin`` starts the end of the server: what runs has its time, then everything stops."""
        self._begin = begin

    async def ask(self) -> bool:
        """Restart; returns at once, and False when that was asked for before: then nothing happens.

        Raises ConfigError when the server would not start with the configuration that is on disk, and
        RestartUnavailableError; in both cases it goes on as it is.
        """
        if self.asked:
            return False
        if self._begin is None:
            raise RestartUnavailableError(
                both(
                    "此服务器不是由 vcp serve 启动的，无法自行重启",
                    "vcp serve did not start this server; nobody starts it again",
                )
            )
        config = await asyncio.to_thread(self._read_config)
        check_bind(config)
        check_tool_port(config)
        if self.asked:  # somebody else was quicker
            return False
        self.asked = True
        self.exits = config.settings.restart_mode == "exit"
        self._begin()
        return True
