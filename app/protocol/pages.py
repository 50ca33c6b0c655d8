"""Addresses of pages that somebody else wants a person to visit: which may be shown, and whose they are (D75)."""

from __future__ import annotations

from urllib.parse import urlsplit

MAX_URL_CHARS = 4096


def page_fault(url: str) -> str:
    """Why a person is not shown this address; empty when he may be.

    Only ``https``, since a secret may be typed there; no name before the host, which could pass for the host.
    """
    if len(url) > MAX_URL_CHARS:
        return f"the address has more than {MAX_URL_CHARS} characters"
    if not url.isascii() or not url.isprintable() or any(char in url for char in " \\<>\"'`"):
        return "the address has characters that no address has"
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return "the address cannot be read"
    if parts.scheme != "https":
        return "the address is not https"
    if not host:
        return "the address has no host"
    if "@" in parts.netloc:
        return "the address has a name before its host"
    return ""


def page_host(url: str) -> str:
    """Whose page it is: the host as the network sees it, with its port."""
    return urlsplit(url).netloc
