"""Which hosts are this machine and no other."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_loopback(host: str) -> bool:
    """True for ``localhost``, 127.0.0.0/8 and ::1, in brackets or as IPv4 in IPv6 too."""
    name = host.strip().removeprefix("[").removesuffix("]").lower()
    if name.rstrip(".") == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
