"""Addresses of model APIs and proxies, as people write them and as requests need them (D12, P35). Pure."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

VERSION = "/v1"

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}

# Addresses are often copied from a curl example, together with the endpoint.
_PASTED_ENDPOINTS = ("/chat/completions", "/completions", "/embeddings", "/models")


class AddressError(ValueError):
    """An address that cannot be used: ``chinese`` and ``english`` say why, to stand behind the name of the setting.

    They never repeat the address, which may hold a password.
    """

    def __init__(self, chinese: str, english: str) -> None:
        super().__init__(english)
        self.chinese = chinese
        self.english = english


def own_address(host: str, port: int) -> str:
    """Where programs of this machine reach a server that listens on ``host``, without a path."""
    reached = _EVERY_ADDRESS.get(host, host)
    return f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"


def api_address(written: str) -> str:
    """The base address without ``/v1`` and without a slash at its end, so that ``base + "/v1/…"`` has one ``/v1``.

    Accepts the address with and without ``/v1``, with slashes and blanks around it, and a whole endpoint
    (``…/v1/chat/completions``). A path before ``/v1`` is kept. Raises ``AddressError``.
    """
    text = written.strip()
    if not text:
        raise AddressError("是空的", "is empty")
    parts = _split(text)
    path = parts.path.rstrip("/")
    for endpoint in _PASTED_ENDPOINTS:
        if path.endswith(endpoint):
            path = path.removesuffix(endpoint).rstrip("/")
            break
    while path.endswith(VERSION):
        path = path.removesuffix(VERSION).rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _split(text: str) -> SplitResult:
    """The parts of a usable address."""
    if any(character.isspace() or not character.isprintable() for character in text):
        raise AddressError("含有空格或控制字符", "has a blank or a control character in it")
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise AddressError("没有以 http:// 或 https:// 开头", "does not begin with http:// or https://")
    if scheme.lower() not in ("http", "https"):
        raise AddressError(
            f"以 {scheme}:// 开头，只能用 http:// 或 https://",
            f"begins with {scheme}://, only http:// and https:// can be used",
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        # Its own words quote what may be a part of a password.
        raise AddressError("的主机或端口不可用", "has a host or port that cannot be used") from None
    if not host or port == 0:
        raise AddressError("没有可用的主机或端口", "has no usable host or port")
    if "@" in parts.netloc:
        raise AddressError(
            "里有用户名或密码，密钥请写到旁边的 Key 设置",
            "has a name or password in it; put the key into the Key setting beside it",
        )
    if parts.query or parts.fragment:
        raise AddressError("里有 ? 或 # 之后的部分，无法发送", "has a part after ? or #, which cannot be sent")
    return parts


def proxy_address(written: str) -> str | None:
    """The address of a proxy as a request needs it, or None for an empty setting.

    ``host:port`` means ``http://host:port``. Raises ``AddressError``.
    """
    text = written.strip()
    if not text:
        return None
    if "://" not in text:
        text = f"http://{text}"
    scheme = text.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        raise AddressError(
            f"写的是 {scheme}:// 代理，只能使用 http:// 或 https://（SOCKS 代理多半也有 http:// 端口）",
            f"names a {scheme}:// proxy; only http:// and https:// proxies can be used, "
            "most SOCKS proxies offer an http:// port too",
        )
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in text):
        raise AddressError(
            "不是可用的代理地址，请写成 http://host:port", "is no usable proxy address; write it as http://host:port"
        )
    return text
