"""Which pages of a stranger a person is shown (D75)."""

from __future__ import annotations

import pytest

from app.protocol.pages import page_fault, page_host


@pytest.mark.parametrize(
    "url", ["https://bank.example/pay?x=1#y", "https://xn--bcher-kva.example:8443/", "https://[2001:db8::1]/"]
)
def test_an_https_page_may_be_shown(url: str) -> None:
    assert page_fault(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://bank.example/",
        "https://bank.example@evil.example/",
        "https://bank.example:pass@evil.example/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https:///path",
        "https://bank.example\\@evil.example/",
        "https://bаnk.example/",  # a Cyrillic letter
        "https://bank.example/\u202egnp.exe",
        "https://bank.example/\n",
        "https://bank.example:99999999/",
        "https://[::1",
        "",
        "https://bank.example/" + "x" * 5000,
    ],
)
def test_a_page_that_could_deceive_is_not_shown(url: str) -> None:
    assert page_fault(url)


def test_the_whole_host_is_told() -> None:
    assert page_host("https://bank.example.evil.example:8443/bank.example") == "bank.example.evil.example:8443"
