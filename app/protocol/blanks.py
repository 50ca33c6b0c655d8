"""What JavaScript calls white space, because existing files, prompts and plugins were trimmed by it."""

from __future__ import annotations

BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""The characters of ``\\s`` and ``trim``: not Python's set (no U+001C to U+001F, no U+0085, but U+FEFF)."""


def trimmed(text: str) -> str:
    """The text without white space at its ends, as JavaScript's ``trim`` does it."""
    return text.strip(BLANKS)
