"""The client's address: the socket's, or the one that a trusted proxy names (B7)."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.datastructures import Headers
from starlette.types import Scope

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


def parse_address(text: str) -> Address | None:
    """The IP address in ``text``, with a port, brackets and an IPv4-in-IPv6 prefix removed; None when it is none."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def client_address(scope: Scope, trusted: Sequence[Network]) -> str:
    """The address a request comes from.

    ``X-Forwarded-For`` is read from the right as long as the hop that wrote it is trusted; with no trusted proxies it
    is ignored, so nobody can put on another's address.
    """
    peer = scope.get("client")
    if peer and not trusted and ":" not in peer[0]:
        return str(peer[0])  # as the socket tells it: nothing to parse, and nobody else is asked
    own = parse_address(peer[0]) if peer else None
    if own is None:
        return str(peer[0]) if peer else "unknown"
    if not _is_trusted(own, trusted):
        return str(own)
    hops = [hop for line in Headers(scope=scope).getlist("x-forwarded-for") for hop in line.split(",")]
    current = own
    for hop in reversed(hops):
        address = parse_address(hop)
        if address is None:
            break
        current = address
        if not _is_trusted(address, trusted):
            break
    return str(current)


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in trusted)
