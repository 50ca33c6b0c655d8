"""What a node says of its addresses (spec 6.4 ``report_ip``)."""

from __future__ import annotations

import ipaddress

from app.node.machine import local_addresses


def test_addresses_are_those_that_others_can_reach_each_once_and_the_lines_own_first() -> None:
    useless = ("127.0.0.1", "::1", "fe80::1%eth0", "0.0.0.0", "", "no address")
    known = ("192.0.2.7", *useless, "::ffff:192.0.2.8", "192.0.2.7")
    found = local_addresses(known)
    assert found[:2] == ("192.0.2.7", "192.0.2.8")
    assert len(set(found)) == len(found)
    for address in map(ipaddress.ip_address, found):
        assert not (address.is_loopback or address.is_link_local or address.is_unspecified)
