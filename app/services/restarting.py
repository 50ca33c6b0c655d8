"""The end of the server that is not its last: who asks for it, and what has to be right before (D87)."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from app.config.keys import check_bind, check_tool_port
from app.config.snapshot import Config
from app.errors import ConfigError, VcpError, both


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
        await asyncio.to_thread(_check_listening, config)
        if self.asked:  # somebody else was quicker
            return False
        self.asked = True
        self.exits = config.settings.restart_mode == "exit"
        self._begin()
        return True


def _check_listening(config: Config) -> None:
    """Refuse addresses that this machine does not have and ports that it does not give; blocks. Raises ConfigError.

    A port that is in use may be our own, so that is none of it.
    """
    settings = config.settings
    wanted = [("HOST / PORT", settings.host, settings.port)]
    if settings.tool_socket_port:
        wanted.append(("ToolSocketHost / ToolSocketPort", settings.tool_socket_host, settings.tool_socket_port))
    for names, host, port in wanted:
        try:
            family, kind, number, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, number) as tried:
                tried.bind(address)
        except (OSError, UnicodeError) as fault:
            if isinstance(fault, OSError) and fault.errno == errno.EADDRINUSE:
                continue
            reason = getattr(fault, "strerror", None) or fault
            raise ConfigError(
                both(
                    f"无法监听 {host} 端口 {port}（{reason}）：请更改 {names}",
                    f"cannot listen on {host} port {port} ({reason}); change {names}",
                )
            ) from None
