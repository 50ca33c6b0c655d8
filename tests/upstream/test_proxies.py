"""Which proxy a request goes through (issue: UpstreamProxy, else the usual variables)."""

from __future__ import annotations

import pytest

from app.errors import ConfigError, UpstreamConnectError
from app.upstream.proxies import EnvironmentProxies, proxy_url

P, Q = "http://p:1", "http://q:2"


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "http://a.example", None),
        ({"http_proxy": P}, "http://a.example/v1", P),
        ({"HTTP_PROXY": P}, "http://a.example", P),
        ({"http_proxy": P, "HTTP_PROXY": Q}, "http://a.example", P),
        ({"http_proxy": " ", "HTTP_PROXY": Q}, "http://a.example", Q),
        ({"http_proxy": P}, "https://a.example", None),
        ({"https_proxy": P, "http_proxy": Q}, "https://a.example", P),
        ({"HTTPS_PROXY": P}, "https://a.example", P),
        ({"all_proxy": P}, "https://a.example", P),
        ({"ALL_PROXY": P}, "http://a.example", P),
        ({"https_proxy": P, "all_proxy": "socks5://s:1"}, "https://a.example", P),
        ({"http_proxy": "p:1"}, "http://a.example", P),
        ({"http_proxy": "http://u:pw@p:1"}, "http://a.example", "http://u:pw@p:1"),
        # loopback is never reached through a proxy of the environment
        ({"http_proxy": P}, "http://localhost:3000", None),
        ({"http_proxy": P}, "http://x.localhost", None),
        ({"http_proxy": P}, "http://127.0.0.1:3000", None),
        ({"http_proxy": P}, "http://127.8.8.8", None),
        ({"http_proxy": P}, "http://[::1]:3000", None),
        ({"http_proxy": P}, "http://10.0.0.1", P),
        # no_proxy
        ({"http_proxy": P, "no_proxy": "*"}, "http://a.example", None),
        ({"http_proxy": P, "no_proxy": "a.example"}, "http://a.example", None),
        ({"http_proxy": P, "NO_PROXY": "x, A.Example ,y"}, "http://a.example", None),
        ({"http_proxy": P, "no_proxy": "x a.example"}, "http://a.example", None),
        ({"http_proxy": P, "no_proxy": "example"}, "http://a.example", None),
        ({"http_proxy": P, "no_proxy": ".example"}, "http://a.example", None),
        ({"http_proxy": P, "no_proxy": "*.example"}, "http://a.example", None),
        ({"http_proxy": P, "no_proxy": "xample"}, "http://a.example", P),
        ({"http_proxy": P, "no_proxy": "b.a.example"}, "http://a.example", P),
        ({"http_proxy": P, "no_proxy": "a.example:80"}, "http://a.example", None),
        ({"http_proxy": P, "no_proxy": "a.example:81"}, "http://a.example", P),
        ({"http_proxy": P, "no_proxy": "10.0.0.0/8"}, "http://10.1.2.3", None),
        ({"http_proxy": P, "no_proxy": "10.0.0.0/8"}, "http://11.1.2.3", P),
        ({"http_proxy": P, "no_proxy": "10.0.0.0/8"}, "http://a.example", P),
        ({"http_proxy": P, "no_proxy": "10.1.2.3"}, "http://10.1.2.3:5", None),
        ({"http_proxy": P, "no_proxy": "10.1.2.3:5"}, "http://10.1.2.3:5", None),
        ({"http_proxy": P, "no_proxy": "[fd00::1]"}, "http://[fd00::1]:5", None),
        ({"http_proxy": P, "no_proxy": "[fd00::1]:5"}, "http://[fd00::1]:5", None),
        ({"http_proxy": P, "no_proxy": "fd00::/16"}, "http://[fd00::1]:5", None),
        ({"http_proxy": P, "no_proxy": ",.,"}, "http://a.example", P),
    ],
)
def test_the_environment_chooses_a_proxy(environment: dict[str, str], url: str, proxy: str | None) -> None:
    assert EnvironmentProxies.read(environment).proxy_for(url) == proxy


def test_an_unusable_variable_is_named_with_both_ways_out() -> None:
    proxies = EnvironmentProxies.read({"ALL_PROXY": "socks5://u:secret@s:1"})
    with pytest.raises(UpstreamConnectError) as caught:
        proxies.proxy_for("https://a.example")
    for word in ("ALL_PROXY", "socks5", "UpstreamProxy", "NO_PROXY", "a.example"):
        assert word in caught.value.message
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("value", ["http://", "http://h:0", "http://h:x", "http://[", "ftp://h", "http://a b"])
def test_an_unusable_setting_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match="UpstreamProxy"):
        proxy_url(value, "UpstreamProxy")


def test_an_empty_setting_is_no_proxy() -> None:
    assert proxy_url(" ", "UpstreamProxy") is None
