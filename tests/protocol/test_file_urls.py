"""Addresses of files as clients on all systems write them (spec 5.9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.file_urls import URL_CHARS, host_of, is_file_url, path_of


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("file:///C:/Users/n/a%20b.png", "", "/C:/Users/n/a b.png"),
        ("file:///C:\\Users\\n\\a.png", "", "/C:\\Users\\n\\a.png"),
        ("file://C:/a.png", "", "C:/a.png"),
        ("file://C:\\a.png", "", "C:\\a.png"),
        ("file://c|/a.png", "", "c|/a.png"),
        ("file:///home/n/%E5%9B%BE.png", "", "/home/n/图.png"),
        ("file:///home/n/图　1.png", "", "/home/n/图　1.png"),
        ("file://localhost/a", "", "localhost/a"),
        ("file://LocalHost/a", "", "LocalHost/a"),
        ("file://Attic/a.png?x#y", "attic", "Attic/a.png"),
        ("file://my%20pc/a", "my pc", "my pc/a"),
        ("file://家/a", "家", "家/a"),
        ("file://attic", "attic", "attic"),
        ("file://[half", "[half", "[half"),
        ("FILE:///a%2e%2e%2fb", "", "/a../b"),
        ("file://\\\\server\\share\\a", "", "\\\\server\\share\\a"),
        ("file:////server/share/a", "", "//server/share/a"),
        ("file:///a%zz%", "", "/a%zz%"),
    ],
)
def test_the_machine_and_the_path_that_an_address_names(url: str, host: str, path: str) -> None:
    assert is_file_url(url)
    assert (host_of(url), path_of(url)) == (host, path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "file:/a",
        "files:///a",
        "http://a/b",
        "/etc/passwd",
        "data:,x",
        "file:///a\0",
        "file:///a\nb",
        "file:///\udc80",
        "file:///" + "a" * URL_CHARS,
        " file:///a",
    ],
)
def test_what_is_no_address_of_a_file(text: str) -> None:
    assert not is_file_url(text)


@given(st.text(max_size=40))
def test_no_text_is_too_odd(text: str) -> None:
    url = f"file://{text}"
    assert host_of(url) == host_of(url).lower()
    assert isinstance(path_of(url), str)
    if is_file_url(url):
        url.encode()
