"""Which proxy a request goes through: the configured one, else the usual environment variables. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from app.config.addresses import AddressError, proxy_address
from app.errors import ConfigError, UpstreamConnectError, both
from app.protocol.loopback import is_loopback


def proxy_url(value: str, setting: str) -> str | None:
    """The address of a proxy as a request needs it, or None for an empty setting.

    ``host:port`` means ``http://host:port``. Raises ``ConfigError`` that names the setting, and never repeats its
    value, which may hold a password.
    """
    try:
        return proxy_address(value)
    except AddressError as error:
        raise ConfigError(both(f"{setting} {error.chinese}", f"{setting} {error.english}")) from error


@dataclass(frozen=True, slots=True)
class EnvironmentProxies:
    """The proxy variables of an environment, read once.

    ``by_scheme`` maps ``http``, ``https`` and ``all`` to (variable, value). Loopback addresses are never reached
    through a proxy of the environment: it could not reach them.
    """

    by_scheme: Mapping[str, tuple[str, str]]
    exceptions: tuple[str, ...]

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> EnvironmentProxies:
        """Read ``http_proxy``, ``https_proxy``, ``all_proxy`` and ``no_proxy``; lower-case names win."""
        found = {}
        for scheme in ("http", "https", "all"):
            for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
                if environment.get(name, "").strip():
                    found[scheme] = (name, environment[name])
                    break
        listed = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
        entries = (entry.strip().lower() for entry in listed.replace(" ", ",").split(","))
        return cls(found, tuple(entry for entry in entries if entry))

    def proxy_for(self, url: str) -> str | None:
        """The proxy for a request to ``url``; raises ``UpstreamConnectError`` when the variable cannot be used."""
        if not self.by_scheme:
            return None
        parts = urlsplit(url)
        variable = self.by_scheme.get(parts.scheme.lower()) or self.by_scheme.get("all")
        if variable is None:
            return None
        host = (parts.hostname or "").rstrip(".")
        port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
        if (
            is_loopback(host)
            or host.endswith(".localhost")
            or any(_covers(entry, host, port) for entry in self.exceptions)
        ):
            return None
        name, value = variable
        try:
            return proxy_url(value, name)
        except ConfigError as error:
            raise UpstreamConnectError(
                both(
                    f"{error.message}; 请设置 UpstreamProxy，或把 {host} 写入 NO_PROXY",
                    f"set UpstreamProxy, or list {host} in NO_PROXY",
                )
            ) from error


def _covers(entry: str, host: str, port: int) -> bool:
    """True when a ``no_proxy`` entry names the host, a domain above it, a network with it, or everything."""
    if entry == "*":
        return True
    try:
        network = ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        network = None
    if network is not None:
        try:
            return ip_address(host) in network
        except ValueError:
            return False
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdecimal():
        return int(wanted) == port and _covers(name, host, port)
    domain = entry.removeprefix("*").lstrip(".").rstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))
