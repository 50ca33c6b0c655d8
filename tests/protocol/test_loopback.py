"""Which hosts are this machine and no other."""

from __future__ import annotations

import pytest

from app.protocol.loopback import is_loopback


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST.", "::ffff:127.0.0.1"]
)
def test_addresses_of_this_machine_are_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "192.168.1.5",
        "128.0.0.1",
        "::2",
        "unknown",
        "example.com",
        "localhost.example.com",
        "",
        "::ffff:10.0.0.1",
    ],
)
def test_all_other_addresses_are_not(host: str) -> None:
    assert not is_loopback(host)
