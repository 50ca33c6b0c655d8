"""Addresses of files, ``file://`` (spec 5.9): what is one, whose machine it names, and its path as text."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

URL_CHARS = 8_192
SCHEME = "file://"

_DRIVE = re.compile(r"[A-Za-z][:|]")
_HERE = ("", "localhost")


def is_file_url(text: str) -> bool:
    """True for an address that may be asked for: of bounded length, without control characters and half characters."""
    if text[: len(SCHEME)].lower() != SCHEME or len(text) > URL_CHARS:
        return False
    return not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


def host_of(url: str) -> str:
    """The machine that an address names, in small letters; empty when it names none or the client's own.

    ``file://C:/a`` and ``file://C:\\a`` are what programs write for ``file:///C:/a``: a drive, not a machine.
    """
    host = re.split(r"[/\\?#]", url[len(SCHEME) :], maxsplit=1)[0]
    if _DRIVE.fullmatch(host):
        return ""
    name = unquote(host).strip().lower()
    return "" if name in _HERE else name


def path_of(url: str) -> str:
    """The path of an address with percent-encoding undone; query and fragment are no part of it."""
    rest = re.split(r"[?#]", url[len(SCHEME) :], maxsplit=1)[0]
    return unquote(rest)
