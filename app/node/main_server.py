"""Where the main server is: what people write, and what a connection needs of it (spec 6.1, 6.4)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from app.errors import ConfigError, both
from app.protocol.loopback import is_loopback

NODE_PATH = "/vcp-distributed-server"
KEY_PREFIX = "/VCP_Key="

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_IN_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,=:@/%|^-]+")
"""Keys that stand in a path as they are; servers do not decode what stands there (6.1)."""


@dataclass(frozen=True, slots=True)
class MainServer:
    """A main server. ``shown`` is its address for people and logs, without anything secret.

    ``base`` may hold a name and password for a proxy in front of the server; ``key`` is the one that stood in the
    address, empty for none.
    """

    secure: bool
    host: str
    port: int
    shown: str
    base: str = field(repr=False)
    key: str = field(default="", repr=False)

    def connection(self, key: str) -> tuple[str, dict[str, str]]:
        """The address to open and the headers to send with it, for one key.

        The key stands in the path, which every server understands; one with characters that a path changes goes into
        a header.
        """
        if _IN_PATH.fullmatch(key):
            return f"{self.base}{NODE_PATH}{KEY_PREFIX}{key}", {}
        # Headers are written in latin-1; the bytes have to be those of UTF-8.
        return f"{self.base}{NODE_PATH}", {"Authorization": f"Bearer {key}".encode().decode("latin-1")}

    @property
    def in_the_clear(self) -> bool:
        """True when key and calls cross a network without TLS."""
        return not self.secure and not is_loopback(self.host)


def main_server(written: str) -> MainServer:
    """Read an address: ``ws``, ``wss``, ``http`` or ``https``, or no scheme for ``ws``; with or without a path.

    What is often copied along is understood: ``/v1``, and the path of nodes with a key. A path before it is kept, for
    servers behind a proxy. Raises ConfigError, which never repeats the address: it may hold a key.
    """
    text = written.strip()
    if not text:
        raise ConfigError(
            both(
                "未指定主服务器：请用 --url ws://主机:端口，或在 config.env 中设置 Main_Server_URL",
                "no main server is given: write --url ws://host:port, or set Main_Server_URL in config.env",
            )
        )
    if "://" not in text:
        text = f"ws://{text}"
    before, _, rest = text.partition(NODE_PATH)
    key = rest.removeprefix(KEY_PREFIX).partition("?")[0] if rest.startswith(KEY_PREFIX) else ""
    try:
        parts = urlsplit(before)
        port = parts.port
    except ValueError:
        raise _unusable() from None
    scheme = _SCHEMES.get(parts.scheme.lower(), "")
    sound = scheme and parts.hostname and port != 0 and not parts.query and not parts.fragment
    if not sound or re.search(r"[\s\x00-\x1f]", before):
        raise _unusable()
    host = parts.hostname or ""
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    at = f"[{host}]" if ":" in host else host
    at = at if port is None else f"{at}:{port}"
    return MainServer(
        secure=scheme == "wss",
        host=host,
        port=port or (443 if scheme == "wss" else 80),
        shown=f"{scheme}://{at}{path}",
        base=f"{scheme}://{_credentials(parts)}{at}{path}",
        key=key,
    )


def proxy_for(server: MainServer, proxies: Mapping[str, str], bypassed: Callable[[str], object]) -> str | None:
    """The HTTP proxy on the way to the server, or None.

    ``proxies`` are those of the system by scheme, ``bypassed`` says which hosts it reaches without one. Machines of the
    own network are always reached directly: a proxy for model APIs does not know them. SOCKS proxies are not used.
    """
    if _near(server.host) or bypassed(f"{server.host}:{server.port}"):
        return None
    names = ("wss", "https") if server.secure else ("ws", "https", "http")
    found = next((proxies[name] for name in names if proxies.get(name)), "")
    return found if found.startswith(("http://", "https://")) else None


def _near(host: str) -> bool:
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host  # a name of the local network
    return address.is_private or address.is_link_local


def _credentials(parts: SplitResult) -> str:
    user, at, _ = parts.netloc.rpartition("@")
    return f"{user}{'' if ':' in user else ':'}@" if at else ""


def _unusable() -> ConfigError:
    return ConfigError(
        both(
            "主服务器地址无法使用：应形如 wss://chat.example.com 或 ws://192.168.1.5:6005（--url 或 Main_Server_URL）",
            "the address of the main server cannot be used; it has to be like wss://chat.example.com or "
            "ws://192.168.1.5:6005 (--url, or Main_Server_URL in config.env)",
        )
    )
