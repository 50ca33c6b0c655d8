"""The one target of API_URL, API_Key and UpstreamProxy."""

from __future__ import annotations

import pytest

from app.errors import ConfigError
from app.extend import UpstreamTarget
from app.upstream.limits import UpstreamLimits
from app.upstream.targets import SingleUpstream


def test_every_model_has_the_same_target() -> None:
    upstream = SingleUpstream(" https://host/v1/ ", " key\n", "proxy:8080")
    assert upstream.resolve("a") == UpstreamTarget("https://host", "key", "http://proxy:8080")
    assert upstream.resolve("b") is upstream.resolve("a")


@pytest.mark.parametrize("proxy", [None, "", " "])
def test_without_a_proxy_setting_there_is_none(proxy: str | None) -> None:
    assert SingleUpstream("https://host", "", proxy).resolve("a").proxy is None


@pytest.mark.parametrize(
    ("url", "key", "proxy", "setting"),
    [
        ("host", "k", None, "API_URL"),
        ("https://host", "secret\nX: y", None, "API_Key"),
        ("https://host", "k", "socks5://secret@s:1", "UpstreamProxy"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_never_repeated(
    url: str, key: str, proxy: str | None, setting: str
) -> None:
    with pytest.raises(ConfigError, match=setting) as caught:
        SingleUpstream(url, key, proxy)
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_limit_is_a_positive_number_of_seconds(seconds: float) -> None:
    with pytest.raises(ValueError, match="idle"):
        UpstreamLimits(idle=seconds)


def test_the_default_limits_are_generous() -> None:
    assert UpstreamLimits() == UpstreamLimits(connect=30, first_byte=900, idle=300)
