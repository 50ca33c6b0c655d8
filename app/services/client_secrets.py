"""Which secrets WebSocket clients are never told (B5, D30)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from app.config.snapshot import Config
from app.extend import Event
from app.hub.masks import Masks
from app.observe.call_log import log_event
from app.plugins.discovery import PluginSet
from app.protocol.secret_texts import is_secret_name

_PICTURES_AND_FILES = ("Image_Key", "File_Key")
_PROMPTS = ("Tar", "Var", "Sar")
MAX_OF_PLUGINS = 500
"""Secrets from the ``config.env`` of plugins that are looked for: each costs time in every text."""

_SHORTEST_VALUE = 12
"""A value under a name that only looks like a secret's has to be as long as one too."""


class ClientSecrets:
    """The secrets of now; all arguments are asked at each use. ``auth_code`` gives the code of the hour.

    Calling it gives all of them. ``without_addresses`` leaves out the keys of pictures and files: a push may show a
    client where a picture is, and that key is a part of the address. Those in the ``config.env`` of plugins count too:
    a tool may print its own. Some may be empty.
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
        self._looked_at: Config | None = None
        self._configured: tuple[str, ...] = ()
        self._plugins_looked_at: PluginSet | None = None
        self._configured_of_plugins: tuple[str, ...] = ()

    def __call__(self) -> tuple[str, ...]:
        """All secrets."""
        settings = self._config().settings
        keys = (settings.image_key, settings.file_key, *self._of_plugins(_PICTURES_AND_FILES))
        return (*keys, *self.without_addresses())

    def without_addresses(self) -> tuple[str, ...]:
        """Those that belong into no address."""
        config = self._config()
        if config is not self._looked_at:  # a reload brings another one
            self._configured = _configured(config)  # first: threads ask too
            self._looked_at = config
        plugins = self._plugins()
        if plugins is not self._plugins_looked_at:
            owned = [value for plugin in plugins.plugins for value in _secret_looking(plugin.own.items())]
            self._configured_of_plugins = tuple(owned[:MAX_OF_PLUGINS])
            self._plugins_looked_at = plugins
        code = self._auth_code() if config.settings.vcp_tool_code else None
        return (
            self._key(),
            code or "",
            *self._configured,
            *self._configured_of_plugins,
            *self._of_plugins(("VCP_Key",)),
        )

    def _of_plugins(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(plugin.own.get(name, "") for plugin in self._plugins().plugins for name in names)


def _configured(config: Config) -> tuple[str, ...]:
    """Our own secrets, and values in ``config.env`` that look like some."""
    settings = config.settings
    own = (settings.key, settings.socket_key, settings.api_key, settings.admin_password, settings.tool_socket_token)
    upstreams = (upstream.target.api_key for upstream in config.upstreams)
    others = _secret_looking((name, config.environ.get(name, "")) for name in sorted(config.file_keys))
    return (*own, *upstreams, *others)


def _secret_looking(settings: Iterable[tuple[str, str]]) -> list[str]:
    """Values that look like secrets: by the end of their name, long, no blank."""
    return [
        value
        for name, value in settings
        if name not in _PICTURES_AND_FILES
        and not name.startswith(_PROMPTS)
        and is_secret_name(name)
        and len(value) >= _SHORTEST_VALUE
        and len(value.split()) == 1
    ]


def call_log(secrets: Callable[[], Iterable[str]]) -> Callable[[Event], None]:
    """What writes the lines of turns and calls, without secrets."""
    return partial(log_event, clean=Masks(secrets).text)
