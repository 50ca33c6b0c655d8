"""Addresses of main servers, as people write them."""

from __future__ import annotations

import pytest
from websockets.uri import parse_uri

from app.errors import ConfigError
from app.node.main_server import main_server, proxy_for


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("ws://host:6005", "ws://host:6005"),
        ("wss://chat.example.com", "wss://chat.example.com"),
        ("http://host:6005/", "ws://host:6005"),
        ("https://chat.example.com/v1", "wss://chat.example.com"),
        ("https://chat.example.com/sub/path/", "wss://chat.example.com/sub/path"),
        (" WS://Host:1/vcp-distributed-server ", "ws://host:1"),
        ("ws://host:1/x/vcp-distributed-server/VCP_Key=abc?x=y", "ws://host:1/x"),
        ("192.168.1.5:6005", "ws://192.168.1.5:6005"),
        ("ws://[::1]:6005", "ws://[::1]:6005"),
    ],
)
def test_every_spelling_leads_to_the_same_path_of_nodes(written: str, base: str) -> None:
    main = main_server(written)
    assert main.shown == base
    address, headers = main.connection("k/e=y%41")
    assert (address, headers) == (f"{base}/vcp-distributed-server/VCP_Key=k/e=y%41", {})
    assert parse_uri(address).resource_name.endswith("/vcp-distributed-server/VCP_Key=k/e=y%41")


def test_a_key_in_the_address_is_used_and_never_shown() -> None:
    main = main_server("ws://host:1/vcp-distributed-server/VCP_Key=s3cret/x?y")
    assert main.key == "s3cret/x"
    assert "s3cret" not in f"{main!r} {main.shown}"


def test_a_password_for_a_proxy_in_front_is_kept_and_never_shown() -> None:
    main = main_server("wss://user:pa%20ss@host")
    uri = parse_uri(main.connection("k")[0])
    assert (uri.username, uri.password) == ("user", "pa ss")
    assert "pa%20ss" not in f"{main!r}"
    assert parse_uri(main_server("wss://user@host").connection("k")[0]).username == "user"


@pytest.mark.parametrize("key", ["a b", "a?b", "a#b", "钥匙", 'a"b', "a;b"])
def test_a_key_that_a_path_would_change_goes_into_a_header(key: str) -> None:
    address, headers = main_server("ws://host").connection(key)
    assert address == "ws://host/vcp-distributed-server"
    assert headers["Authorization"].encode("latin-1").decode() == f"Bearer {key}"


@pytest.mark.parametrize(
    "written",
    ["", " ", "ftp://host", "ws://", "ws://host:99999", "ws://host:0", "ws://ho st", "ws://host?a=b", "ws://[1"],
)
def test_what_is_no_address_is_refused_without_repeating_it(written: str) -> None:
    with pytest.raises(ConfigError) as refused:
        main_server(written)
    assert "Main_Server_URL" in refused.value.message
    assert "99999" not in refused.value.message


def test_the_way_is_in_the_clear_only_without_tls_to_another_machine() -> None:
    assert main_server("ws://chat.example.com").in_the_clear
    assert not main_server("wss://chat.example.com").in_the_clear
    assert not main_server("ws://127.0.0.1:1").in_the_clear


PROXIES = {"http": "http://proxy:1", "https": "http://proxy:2", "all": "socks5://proxy:3"}


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("wss://chat.example.com", "http://proxy:2"),
        ("ws://chat.example.com", "http://proxy:2"),
        ("ws://127.0.0.1:1", None),
        ("ws://192.168.1.5", None),
        ("ws://nas", None),
        ("wss://out.example.com", None),
    ],
)
def test_the_systems_proxy_is_used_for_servers_outside_the_own_network(url: str, proxy: str | None) -> None:
    assert proxy_for(main_server(url), PROXIES, lambda host: host.startswith("out.")) == proxy


def test_a_socks_proxy_is_not_used() -> None:
    assert proxy_for(main_server("wss://a.b"), {"https": "socks5://proxy:3"}, lambda _: False) is None
