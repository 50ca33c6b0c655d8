"""The address of a model API, as people write it and as requests need it (D12, P35)."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from app.errors import ConfigError, both

VERSION = "/v1"
CHAT_PATH = "/v1/chat/completions"
MODELS_PATH = "/v1/models"

# Addresses are often copied from a curl example, together with the endpoint.
_PASTED_ENDPOINTS = ("/chat/completions", "/completions", "/embeddings", "/models")
_EXAMPLE = "API_URL=https://api.example.com"


def base_url(api_url: str) -> str:
    """The base address without ``/v1`` and without a slash at its end, so that ``base + "/v1/…"`` has one ``/v1``.

    Accepts the address with and without ``/v1``, with slashes and blanks around it, and a whole endpoint
    (``…/v1/chat/completions``). A path before ``/v1`` is kept. Raises ``ConfigError`` that names ``API_URL`` when no
    request can be made with it (D12).
    """
    text = api_url.strip()
    if not text:
        raise _unusable("是空的", "is empty")
    parts = _split(text)
    path = parts.path.rstrip("/")
    for endpoint in _PASTED_ENDPOINTS:
        if path.endswith(endpoint):
            path = path.removesuffix(endpoint).rstrip("/")
            break
    while path.endswith(VERSION):
        path = path.removesuffix(VERSION).rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _unusable(chinese: str, english: str) -> ConfigError:
    return ConfigError(
        both(f"API_URL {chinese}，写法示例：{_EXAMPLE}", f"API_URL {english}; write it as in {_EXAMPLE}")
    )


def redirected(location: str) -> str:
    """What people are told of a redirect to this place; only its host, for the rest may be a secret."""
    host = host_of(location)
    return both(
        f"上游重定向到{f' {host}' if host else '另一个路径'}；不会跟随重定向，请把 API_URL 设为最终地址",
        f"the upstream redirects to {host or 'another path'}; redirects are not followed, "
        "set API_URL to the final address",
    )


def host_of(url: str) -> str:
    """Host and port of an address, for messages: never credentials, path or query; empty when it has none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def _split(text: str) -> SplitResult:
    """The parts of a usable address; the messages never repeat what may be a password."""
    if any(character.isspace() or not character.isprintable() for character in text):
        raise _unusable("含有空格或控制字符", "has a blank or a control character in it")
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise _unusable("没有以 http:// 或 https:// 开头", "does not begin with http:// or https://")
    if scheme.lower() not in ("http", "https"):
        raise _unusable(
            f"以 {scheme}:// 开头，只能用 http:// 或 https://",
            f"begins with {scheme}://, only http:// and https:// can be used",
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _unusable(
            f"的主机或端口不可用（{error}）", f"has a host or port that cannot be used ({error})"
        ) from error
    if not host or port == 0:
        raise _unusable("没有可用的主机或端口", "has no usable host or port")
    if "@" in parts.netloc:
        raise _unusable(
            "里有用户名或密码，密钥请写到 API_Key", "has a name or password in it; put the key into API_Key"
        )
    if parts.query or parts.fragment:
        raise _unusable("里有 ? 或 # 之后的部分，无法发送", "has a part after ? or #, which cannot be sent")
    return parts
