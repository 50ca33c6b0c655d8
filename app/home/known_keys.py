"""The keys and passwords of an installation: which there are and where each comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from app.config.keys import ADMIN_FILE, KEY_FILE, stored_admin_password, stored_key
from app.config.snapshot import CONFIG_FILE, Config
from app.config.upstreams import is_upstream_key
from app.errors import ConfigError, both
from app.plugins.discovery import PluginSet
from app.protocol.loopback import is_loopback

OWN_FILES: Mapping[str, str] = MappingProxyType(
    {"Image_Key": "ImageServer", "File_Key": "FileServer", "VCP_Key": "VCPLog"}
)
"""Keys that a plugin's own ``config.env`` may set; it wins over the main one (spec 2.2)."""

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "Key": both("客户端的密钥", "what clients send"),
        "Image_Key": both("图片服务的密钥", "key of the image service"),
        "File_Key": both("文件服务的密钥", "key of the file service"),
        "VCP_Key": both("WebSocket 密钥", "key of WebSocket clients"),
        "ToolSocketToken": both("工具客户端端口的令牌", "token of the port of tool clients"),
        "AdminPassword": both("管理面板密码", "password of the admin panel"),
        "API_Key": both("上游模型接口的密钥", "our key at the model API"),
    }
)

OWN_SECRETS = ("Image_Key", "File_Key", "VCP_Key", "ToolSocketToken", "AdminPassword")
"""Secrets that a person chooses and writes into ``config.env``."""


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One key: its value (empty: not set), where it stands and what it is for, in words."""

    name: str
    value: str = field(repr=False)
    source: str = ""

    @property
    def meaning(self) -> str:
        """What the key is for."""
        return MEANINGS.get(self.name) or both("该上游的密钥", "our key at this upstream")


def known_keys(config: Config, plugins: PluginSet, process_environ: Mapping[str, str]) -> tuple[KnownKey, ...]:
    """All keys by their names in ``config.env``; the generated key stands in for a missing ``Key``.

    Those of named upstreams come last, in the order of the file.

    ``process_environ`` is the environment that the configuration was loaded under.

    Raises ConfigError if the generated key exists and cannot be read.
    """
    names = (*MEANINGS, *(name for name in config.environ if is_upstream_key(name)))
    return tuple(_key(name, config, plugins, process_environ) for name in names)


def _key(name: str, config: Config, plugins: PluginSet, process_environ: Mapping[str, str]) -> KnownKey:
    owner = next((plugin for plugin in plugins.plugins if plugin.name == OWN_FILES.get(name)), None)
    if owner is not None and owner.own.get(name):
        return KnownKey(name, owner.own[name], f"Plugin/{owner.folder.name}/{CONFIG_FILE}")
    value = config.environ.get(name, "").strip()
    if value:
        return KnownKey(name, value, both("环境变量", "environment") if name in process_environ else CONFIG_FILE)
    if name == "Key":
        return _generated(name, config, KEY_FILE, stored_key)
    if name == "AdminPassword" and is_loopback(config.settings.host):
        return _generated(name, config, ADMIN_FILE, stored_admin_password)
    return KnownKey(name, "")


def _generated(name: str, config: Config, file: Path, stored: Callable[[Path], str]) -> KnownKey:
    try:
        generated = stored(config.home)
    except OSError as error:
        path = config.home / file
        raise ConfigError(
            both(f"无法读取 {path}", f"{path} cannot be read") + f": {error.strerror or error}"
        ) from error
    if generated:
        return KnownKey(name, generated, f"{file.as_posix()}, {both('自动生成', 'generated')}")
    return KnownKey(name, "")
