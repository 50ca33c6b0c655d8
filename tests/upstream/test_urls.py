"""The address as people write it (D12, P35)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ConfigError
from app.upstream.urls import CHAT_PATH, base_url, host_of


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("http://host", "http://host"),
        ("http://host/", "http://host"),
        ("http://host///", "http://host"),
        ("http://host/v1", "http://host"),
        ("http://host/v1/", "http://host"),
        ("http://host/v1//", "http://host"),
        ("http://host//v1", "http://host"),
        ("http://host/v1/v1/", "http://host"),
        ("  https://host:8443/v1 \n", "https://host:8443"),
        ("\u3000https://host\u3000", "https://host"),
        ("https://host/v1/chat/completions", "https://host"),
        ("https://host/v1/chat/completions/", "https://host"),
        ("https://host/chat/completions", "https://host"),
        ("https://host/v1/models", "https://host"),
        ("https://host/v1/embeddings", "https://host"),
        ("https://host/api", "https://host/api"),
        ("https://host/api/v1/", "https://host/api"),
        ("https://host/v1/api", "https://host/v1/api"),
        ("https://host/apiv1", "https://host/apiv1"),
        ("https://host/v10", "https://host/v10"),
        ("HTTPS://Host/v1", "https://Host"),
        ("http://[::1]:3000/v1", "http://[::1]:3000"),
        ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
        ("http://例え.example/v1", "http://例え.example"),
    ],
)
def test_an_address_with_and_without_v1_slashes_and_blanks_gives_one_base(written: str, base: str) -> None:
    assert base_url(written) == base


@pytest.mark.parametrize(
    "written",
    [
        "",
        "  ",
        "host",
        "host:3000",
        "localhost:3000/v1",
        "//host",
        "ftp://host",
        "http//host",
        "http://",
        "http:///v1",
        "http://:80",
        "http://host:abc",
        "http://host:99999",
        "http://host:0",
        "http://[::1",
        "http://ho st",
        "http://host/v1\r\nX: y",
        "http://user:secret@host/v1",
        "http://host/v1?key=secret",
        "http://host/#secret",
    ],
)
def test_an_address_that_cannot_be_used_names_the_setting_and_the_way_out(written: str) -> None:
    with pytest.raises(ConfigError) as caught:
        base_url(written)
    assert "API_URL" in caught.value.message
    assert "https://api.example.com" in caught.value.message
    assert "secret" not in caught.value.message


@given(
    before=st.sampled_from(["", "/", "/api", "/a/b/", "/v2"]),
    version=st.lists(st.sampled_from(["/v1", "/v1/", "//"]), max_size=4),
    blanks=st.text(" \t\n", max_size=2),
)
def test_a_request_has_exactly_one_v1_however_the_address_was_written(
    before: str, version: list[str], blanks: str
) -> None:
    base = base_url(f"{blanks}https://host{before}{''.join(version)}{blanks}")
    assert (base + CHAT_PATH).split("/").count("v1") == 1
    assert not base.endswith("/")
    assert base_url(base) == base


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://u:pw@host:1/v1?k=s", "host:1"),
        ("http://host/x", "host"),
        ("http://[::1]:80", "[::1]:80"),
        ("", ""),
        ("/path", ""),
        ("http://[::1", ""),  # what an upstream names as its new place may be no address at all
    ],
)
def test_a_host_for_messages_has_no_credentials(url: str, host: str) -> None:
    assert host_of(url) == host
