"""The address of a model API, as people write it and as requests need it (D12, P35)."""

from __future__ import annotations

from urllib.parse import urlsplit

from app.config.addresses import AddressError, api_address
from app.errors import ConfigError, both

CHAT_PATH = "/v1/chat/completions"
MODELS_PATH = "/v1/models"

_EXAMPLE = "API_URL=https://api.example.com"


def base_url(api_url: str) -> str:
    """The base address of ``API_URL``, see ``api_address``; raises ``ConfigError`` that names the setting (D12)."""
    try:
        return api_address(api_url)
    except AddressError as error:
        raise ConfigError(
            both(
                f"API_URL {error.chinese}，写法示例：{_EXAMPLE}", f"API_URL {error.english}; write it as in {_EXAMPLE}"
            )
        ) from error


def redirected(location: str, setting: str = "API_URL") -> str:
    """What people are told of a redirect to this place; only its host, for the rest may be a secret."""
    host = host_of(location)
    return both(
        f"上游重定向到{f' {host}' if host else '另一个路径'}；不会跟随重定向，请把 {setting} 设为最终地址",
        f"the upstream redirects to {host or 'another path'}; redirects are not followed, "
        f"set {setting} to the final address",
    )


def host_of(url: str) -> str:
    """Host and port of an address, for messages: never credentials, path or query; empty when it has none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""
