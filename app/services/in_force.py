"""What holds now: the configuration, and the address at which the server listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from app.config.addresses import own_address
from app.config.settings import Settings
from app.config.snapshot import Config
from app.plugins.in_process_context import depth_headers
from app.protocol.loopback import is_loopback

T = TypeVar("T")


class InForce:
    """The configuration of now, which a reload replaces whole, and what follows from it.

    Parts never keep a value from here: they get the object or one of its methods, and ask at each use. ``owns_home`` is
    true for the one process of the installation that runs what runs once (D88).
    """

    def __init__(self, config: Config, key: str, *, owns_home: bool = True) -> None:
        self.config = config
        self.key = key
        self.owns_home = owns_home
        self._address = ""

    @property
    def home(self) -> Path:
        """The root of the installation; a reload does not change it."""
        return self.config.home

    @property
    def settings(self) -> Settings:
        """The settings of now."""
        return self.config.settings

    @property
    def notebooks(self) -> Path:
        """The folder of the notebooks of now."""
        return self.config.notebooks

    def following(self, make: Callable[[Settings], T]) -> Callable[[], T]:
        """Gives what ``make`` makes of the settings of now: made at the first use, and anew after a reload only."""
        known: tuple[Settings, T] | None = None

        def of_now() -> T:
            nonlocal known
            settings = self.settings
            if known is None or known[0] is not settings:
                known = settings, make(settings)
            return known[1]

        return of_now

    def zone(self) -> ZoneInfo:
        """The zone of logs, schedules and diaries."""
        return self.config.zone

    def served_at(self, address: str) -> None:
        """The server listens at this address, such as ``http://127.0.0.1:4711``."""
        self._address = address

    def port(self) -> int:
        """The port that the server listens on; until it does, the configured one."""
        return urlsplit(self._address).port or self.settings.port

    def callback_base(self) -> str:
        """Where background plugins call back: the configured base, or this server's own (D19)."""
        address = self._address or own_address(self.settings.host, self.settings.port)
        if self._address and not self.owns_home:
            return f"{address}/plugin-callback"  # what is configured is the address of the server that owns the home
        return self.settings.callback_base_url or f"{address}/plugin-callback"

    def chain_headers(self, url: str) -> Mapping[str, str]:
        """Headers of a plugin's request: to this server itself how deep it stands, to others nothing."""
        parts = urlsplit(url)
        here = is_loopback(parts.hostname or "") or parts.hostname == self.settings.host
        return depth_headers() if here and parts.port == self.port() else {}

    def plugin_environ(self) -> Mapping[str, str]:
        """The environment that plugins see: the configuration of now, and where and how to call back to the server."""
        return {**self.config.environ, "PORT": str(self.port()), "Key": self.key}
