"""Masking what looks like a secret, for ``privacyProtection`` (spec 7.6). A help, not a guarantee."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from app.protocol.arguments import fold

MASK = "***"
MAX_DEPTH = 64
"""What is nested deeper is masked as a whole."""

_NAMES = re.compile(
    "password|passwd|passphrase|secret|apikey|accesskey|privatekey|credential|authorization|cookie|token$"
)
_SETTING_NAMES = re.compile(
    r"(?:key|token|secret|passw(?:or)?d|cookie|credential|authorization|pwd|auth)s?$", re.IGNORECASE
)
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}(?![A-Za-z0-9])|AIza[A-Za-z0-9_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"
)
_SHORTEST_TOKEN = 13
_WITH_UNDERSCORE = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[^-]*")
_ASSIGNED = re.compile(r"(?m)^([ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]{0,100})[ \t]*=[ \t]*)(\S[^\r\n]*)")
_BEARER = re.compile(r"(?i)\b(Bearer[ \t]+)[A-Za-z0-9._~+/=-]{12,}")


def masked_text(text: str) -> str:
    """``text`` with a mask in place of well-known tokens, private keys, and values assigned to secret names."""
    # Plain searches first: most texts hold none of it, and an expression over a long one stops everything else.
    if len(text) >= _SHORTEST_TOKEN and _may_hold_tokens(text):
        text = _TOKENS.sub(MASK, text)
    if "PRIVATE KEY-----" in text:
        text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    if "bearer" in text.lower():
        text = _BEARER.sub(rf"\1{MASK}", text)
    if "=" in text:
        text = _ASSIGNED.sub(lambda found: found[1] + MASK if _is_secret(found[2]) else found[0], text)
    return text


def _may_hold_tokens(text: str) -> bool:
    """Whether one of the beginnings that ``_TOKENS`` looks for can be in the text."""
    return (
        "k-" in text
        or "eyJ" in text
        or "AKIA" in text
        or "AIza" in text
        or "xox" in text
        or ("_" in text and any([beginning in text for beginning in _WITH_UNDERSCORE]))
    )


def masked(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A JSON value with all its texts masked, and everything under a name that tells of a secret."""
    if isinstance(value, str):
        return masked_text(value)
    if not isinstance(value, Mapping | list):
        return value
    if depth == 0:
        return MASK
    if isinstance(value, list):
        return [masked(item, depth - 1) for item in value]
    return {
        name: MASK if _is_secret(name) and isinstance(item, str | int | float) and item else masked(item, depth - 1)
        for name, item in value.items()
    }


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name (``config.env``, a plugin's own) is taken for a secret: by the end of the name."""
    return _SETTING_NAMES.search(name.strip()) is not None


def _is_secret(name: str) -> bool:
    folded = fold(name)
    return _NAMES.search(folded) is not None or folded in ("key", "pw", "pwd")
