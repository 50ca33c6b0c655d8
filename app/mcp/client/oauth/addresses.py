"""Where requests of an OAuth flow may go (MCP-79): the addresses come from a server, which may mean no good."""

from __future__ import annotations

import asyncio
import socket
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from app.errors import both
from app.mcp.client.oauth.errors import SignInError
from app.protocol.loopback import is_loopback

RESOLVE_SECONDS = 10.0

_TRANSLATED = IPv6Network("64:ff9b::/96")


class Reach(IntEnum):
    """From where an address can be reached. Who is in one of them may point at the same and at those before it."""

    PUBLIC = 0
    PRIVATE = 1
    LOCAL = 2  # this machine
    SPECIAL = 3  # link-local and the like, where clouds keep their keys: never


async def check_address(url: str, server_url: str) -> None:
    """Raises SignInError when a server at ``server_url`` may not send us to ``url``.

    Only ``https``, or ``http`` on this machine; no address of a private network unless the server itself is there, and
    nothing with a name before its host. Names are resolved, since a public name may stand for a private address.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise SignInError(both("OAuth 地址无法识别", "an OAuth address cannot be read")) from None
    if not host or "@" in parts.netloc or parts.fragment:
        raise SignInError(both("OAuth 地址无法使用", "an OAuth address has no host, a name before it, or a fragment"))
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise SignInError(
            both(f"拒绝 OAuth 地址 {host}：必须使用 https", f"the OAuth address at {host} is refused: it is not https")
        )
    here = urlsplit(server_url)
    if (host, port, parts.scheme) == (here.hostname, here.port, here.scheme):
        return
    # Who owns the name of a server may add any address to it; what counts is where it can be reached from outside.
    allowed = min(await _reaches(here.hostname or ""))
    if max(await _reaches(host)) > min(allowed, Reach.LOCAL):
        raise SignInError(
            both(
                f"拒绝 OAuth 地址 {host}：它位于服务器自己不在的私有网络",
                f"the OAuth address at {host} is refused: it is in a private network where the server itself is not",
            )
        )


async def _reaches(host: str) -> set[Reach]:
    """Those of all addresses of a host; a name that nobody knows is left to the request to fail with."""
    if is_loopback(host):
        return {Reach.LOCAL}
    try:
        return {_reach_of(host)}
    except ValueError:
        pass
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return {Reach.PUBLIC}
    return {_reach_of(str(entry[4][0]).partition("%")[0]) for entry in found} or {Reach.PUBLIC}


def _reach_of(text: str) -> Reach:
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or _translated(address) or address
    if address.is_loopback:
        return Reach.LOCAL
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return Reach.SPECIAL
    return Reach.PUBLIC if address.is_global else Reach.PRIVATE


def _translated(address: IPv6Address) -> IPv4Address | None:
    """The address that a translator to the older protocol makes of it (NAT64), None for all others."""
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _TRANSLATED else None
