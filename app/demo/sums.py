"""Finds arithmetic in a text. It is recognised by one regular expression and never evaluated here."""

from __future__ import annotations

import re

MAX_SCANNED = 20_000
"""Characters of a message that are searched for sums."""

MAX_SUMS = 8
"""Sums that are taken from one message."""

_WORDS = {
    "**": "**",
    "^": "**",
    "*": "*",
    "×": "*",
    "/": "/",
    "÷": "/",
    "+": "+",
    "-": "-",
    "−": "-",
    "x": "*",
    "plus": "+",
    "minus": "-",
    "times": "*",
    "divided by": "/",
    "加上": "+",
    "加": "+",
    "减去": "-",
    "减": "-",
    "乘以": "*",
    "乘": "*",
    "除以": "/",
}
_FULL_WIDTH = str.maketrans("０１２３４５６７８９＋－＊／（）．＾", "0123456789+-*/().^")
_URL = re.compile(r"[a-z][a-z0-9+.-]{0,30}://\S+", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")

# Every repetition is possessive or bounded: a hostile text costs linear time.
_GAP = r"[ \t]{0,3}+"
_NUMBER = r"\d++(?:\.\d++)?+"
_OPERAND = rf"(?:[-+]?\({_GAP}){{0,8}}+[-+]?{_NUMBER}(?:{_GAP}\)){{0,8}}+"
_SIGN = r"\*\*|[-+*/^×÷−]|(?<=[ \t])(?:x|plus|minus|times|divided by)(?=[ \t])|加上?+|减去?+|乘以?+|除以"
_SUM = re.compile(
    rf"(?<![A-Za-z0-9_.]){_OPERAND}(?:{_GAP}(?:{_SIGN}){_GAP}{_OPERAND}){{1,40}}(?![A-Za-z0-9_]|\.\d)", re.IGNORECASE
)
_TOKEN = re.compile(rf"(?P<keep>{_NUMBER}|[()])|(?P<sign>{_SIGN})|[ \t]", re.IGNORECASE)


def find_sums(text: str) -> list[str]:
    """The sums of ``text`` in their order, written with ``+ - * / **`` and no blanks; at most ``MAX_SUMS``.

    Dates, telephone numbers and paths (a chain of only ``-`` or only ``/`` without blanks) are not sums.
    """
    plain = _THOUSANDS.sub("", _URL.sub(" ", text[:MAX_SCANNED].translate(_FULL_WIDTH)))
    sums: list[str] = []
    for found in _SUM.finditer(plain):
        written = _balanced(found[0].strip())
        if written and not _is_chain(written):
            sums.append(_normal(written))
        if len(sums) == MAX_SUMS:
            break
    return sums


def _normal(written: str) -> str:
    """The sum in the calculator's own signs."""
    return "".join(
        token["keep"] or (_WORDS[token["sign"].lower()] if token["sign"] else "") for token in _TOKEN.finditer(written)
    )


def _is_chain(written: str) -> bool:
    """True for ``2026-01-05``, ``555-12-34``, ``1/2/3``: more likely a name of something than a sum."""
    signs = re.sub(r"[\d.]", "", written)
    return len(signs) > 1 and signs in ("-" * len(signs), "/" * len(signs))


def _balanced(written: str) -> str:
    """The sum without brackets that belong to the sentence around it; empty if they do not match up."""
    while written.count(")") > written.count("(") and written.endswith(")"):
        written = written[:-1].rstrip()
    while written.count("(") > written.count(")") and written.startswith("("):
        written = written[1:].lstrip()
    depth = 0
    for char in written:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return ""
    return written if depth == 0 else ""
