"""The client's address: who is believed, and how an address may be written (B7)."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from app.web.addresses import client_address, parse_address

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("127.0.0.1/32"), ip_network("fd00::/8"))


def scope(peer: str | None, *forwarded: str) -> dict[str, Any]:
    return {
        "type": "http",
        "client": None if peer is None else (peer, 5),
        "headers": [(b"x-forwarded-for", line.encode("latin-1")) for line in forwarded],
    }


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("8.8.8.8", (), "8.8.8.8"),
        ("8.8.8.8", ("1.1.1.1",), "8.8.8.8"),
        ("::ffff:8.8.8.8", (), "8.8.8.8"),
        ("2001:DB8::0:1", (), "2001:db8::1"),
        ("fe80::1%eth0", (), "fe80::1"),
        ("127.0.0.1", ("1.1.1.1",), "1.1.1.1"),
        ("::ffff:127.0.0.1", ("1.1.1.1",), "1.1.1.1"),
        ("127.0.0.2", ("1.1.1.1",), "127.0.0.2"),
        ("10.0.0.1", ("6.6.6.6, 1.1.1.1",), "1.1.1.1"),
        ("10.0.0.1", ("6.6.6.6, 1.1.1.1, 10.9.9.9",), "1.1.1.1"),
        ("10.0.0.1", ("6.6.6.6", "1.1.1.1"), "1.1.1.1"),
        ("10.0.0.1", ("10.1.1.1, 10.2.2.2",), "10.1.1.1"),
        ("10.0.0.1", ("1.1.1.1:8080",), "1.1.1.1"),
        ("10.0.0.1", ("[2001:db8::7]:8080",), "2001:db8::7"),
        ("10.0.0.1", ("2001:db8::7",), "2001:db8::7"),
        ("10.0.0.1", ('"[2001:db8::7]"',), "2001:db8::7"),
        ("10.0.0.1", ("::ffff:1.1.1.1",), "1.1.1.1"),
        ("fd00::1", ("1.1.1.1",), "1.1.1.1"),
        ("10.0.0.1", ("unknown",), "10.0.0.1"),
        ("10.0.0.1", ("1.1.1.1, garbage",), "10.0.0.1"),
        ("10.0.0.1", ("1.1.1.1, ,10.3.3.3",), "10.3.3.3"),
        ("10.0.0.1", ("",), "10.0.0.1"),
        ("10.0.0.1", ("\xff\xfe",), "10.0.0.1"),
        ("10.0.0.1", ("127.0.0.1",), "127.0.0.1"),
        (None, ("1.1.1.1",), "unknown"),
        ("/run/socket", ("1.1.1.1",), "/run/socket"),
    ],
)
def test_forwarded_addresses_are_believed_from_trusted_hops_only(
    peer: str | None, forwarded: tuple[str, ...], expected: str
) -> None:
    assert client_address(scope(peer, *forwarded), TRUSTED) == expected


def test_without_trusted_proxies_the_header_means_nothing() -> None:
    assert client_address(scope("127.0.0.1", "1.1.1.1"), ()) == "127.0.0.1"


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "1.2.3.4.5", "[", "[]", "::g", "1.2.3.4/8", "0x7f.1"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None
