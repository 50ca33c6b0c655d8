"""This machine as others see it: its name and its addresses in networks."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Iterable

MAX_ADDRESSES = 64
_GET_ADDRESS = 0x8915  # SIOCGIFADDR of Linux


def local_addresses(known: Iterable[str] = ()) -> tuple[str, ...]:
    """The addresses of this machine, those ``known`` first, without loopback and link-local ones. Blocks a moment."""
    found: dict[str, None] = {}
    for text in (*known, *_of_interfaces(), *_of_name()):
        address = text.partition("%")[0].removeprefix("::ffff:")
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            continue
        if not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified):
            found[address] = None
    return tuple(found)[:MAX_ADDRESSES]


def _of_name() -> list[str]:
    """What the machine's own name stands for; on many systems a loopback address only."""
    try:
        return [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)]
    except OSError:
        return []


def _of_interfaces() -> list[str]:
    """The IPv4 address of each network interface, where the system can be asked for it."""
    if not sys.platform.startswith("linux"):
        return []
    import fcntl

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex()[:MAX_ADDRESSES]:
            try:
                answer = fcntl.ioctl(asking.fileno(), _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
            except OSError:  # an interface without an address
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    return found
