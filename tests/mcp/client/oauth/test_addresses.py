"""Where metadata of a server may send us (MCP-79)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from app.mcp.client.oauth.addresses import check_address
from app.mcp.client.oauth.errors import SignInError

PUBLIC = "https://203.0.114.5/mcp"
PRIVATE = "https://10.0.0.5/mcp"
LOCAL = "http://127.0.0.1:4000/mcp"


def good(url: str, server: str) -> bool:
    try:
        asyncio.run(check_address(url, server))
    except SignInError:
        return False
    return True


@pytest.mark.parametrize(
    ("url", "server", "may"),
    [
        ("https://203.0.114.9/token", PUBLIC, True),
        ("http://203.0.114.9/token", PUBLIC, False),
        ("ftp://203.0.114.9/token", PUBLIC, False),
        ("javascript:alert(1)", PUBLIC, False),
        ("https://user@203.0.114.9/token", PUBLIC, False),
        ("https://203.0.114.9/token#x", PUBLIC, False),
        ("https:///token", PUBLIC, False),
        ("https://[::1", PUBLIC, False),
        ("https://10.0.0.9/token", PUBLIC, False),
        ("https://192.168.1.1/token", PUBLIC, False),
        ("https://100.64.0.1/token", PUBLIC, False),
        ("https://[fd00::1]/token", PUBLIC, False),
        ("https://127.0.0.1/token", PUBLIC, False),
        ("http://localhost:1/token", PUBLIC, False),
        ("https://[::1]/token", PUBLIC, False),
        ("https://[::ffff:127.0.0.1]/token", PUBLIC, False),
        ("https://[::ffff:10.0.0.1]/token", PUBLIC, False),
        ("https://[64:ff9b::10.0.0.1]/token", PUBLIC, False),
        ("https://[64:ff9b::169.254.169.254]/token", LOCAL, False),
        ("https://[64:ff9b::203.0.114.9]/token", PUBLIC, True),
        ("https://0.0.0.0/token", PUBLIC, False),
        ("https://10.0.0.9/token", PRIVATE, True),
        ("http://10.0.0.9/token", PRIVATE, False),
        ("https://203.0.114.9/token", PRIVATE, True),
        ("https://127.0.0.1/token", PRIVATE, False),
        ("http://127.0.0.1:5000/token", LOCAL, True),
        ("https://10.0.0.9/token", LOCAL, True),
        ("https://169.254.169.254/token", PUBLIC, False),
        ("https://169.254.169.254/token", PRIVATE, False),
        ("https://169.254.169.254/token", LOCAL, False),
        ("https://[fe80::1]/token", LOCAL, False),
        ("https://10.0.0.5/token", PRIVATE, True),
    ],
)
def test_only_https_and_no_private_network_where_the_server_is_not(url: str, server: str, may: bool) -> None:
    assert good(url, server) is may


@pytest.mark.parametrize(("address", "may"), [("203.0.114.9", True), ("10.0.0.9", False), ("127.0.0.1", False)])
def test_a_public_name_of_a_private_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str, may: bool
) -> None:
    def resolved(*_args: Any, **_more: Any) -> Any:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.114.7", 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    assert good("https://login.example/token", PUBLIC) is may


def test_a_server_whose_name_has_a_private_address_too_may_not_point_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the name adds such an address to it, and is still reached at the public one."""

    def resolved(*_args: Any, **_more: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("127.0.0.1", "203.0.114.7")]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    for url in ("http://127.0.0.1:6379/token", "https://10.0.0.9/token", "https://169.254.169.254/token"):
        assert not good(url, "https://evil.example/mcp")


def test_a_name_that_nobody_knows_is_left_to_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: Any, **_more: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert good("https://nowhere.example/token", PUBLIC)
