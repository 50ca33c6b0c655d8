"""Which secrets of an installation WebSocket clients are never told, whatever tool printed them (B5, D30)."""

from __future__ import annotations

from collections.abc import Callable

from app.config.snapshot import Config
from app.plugins.discovery import PluginSet

_PICTURES_AND_FILES = ("Image_Key", "File_Key")


class ClientSecrets:
    """The secrets of now; all arguments are asked at each use. ``auth_code`` gives the code of the hour, if one counts.

    Calling it gives all of them. ``without_addresses`` leaves out the keys of pictures and files: a push may show a
    client where a picture is, and that key is a part of the address.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        key: Callable[[], str],
        plugins: Callable[[], PluginSet],
        auth_code: Callable[[], str | None],
    ) -> None:
        self._config = config
        self._key = key
        self._plugins = plugins
        self._auth_code = auth_code

    def __call__(self) -> tuple[str, ...]:
        """All secrets; some may be empty."""
        settings = self._config().settings
        keys = (settings.image_key, settings.file_key, *self._of_plugins(_PICTURES_AND_FILES))
        return (*keys, *self.without_addresses())

    def without_addresses(self) -> tuple[str, ...]:
        """Those that belong into no address."""
        config = self._config()
        settings = config.settings
        upstreams = (upstream.target.api_key for upstream in config.upstreams)
        given = (settings.key, settings.socket_key, settings.api_key, settings.admin_password)
        code = self._auth_code() if settings.vcp_tool_code else None
        return (
            self._key(),
            *given,
            settings.tool_socket_token,
            code or "",
            *upstreams,
            *self._of_plugins(("VCP_Key",)),
        )

    def _of_plugins(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(plugin.own.get(name, "") for plugin in self._plugins().plugins for name in names)
