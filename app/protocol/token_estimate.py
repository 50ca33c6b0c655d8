"""About how many tokens a text has, without the vocabulary of any model."""

from __future__ import annotations

import re

CHARS_PER_TOKEN = 4
"""Of text in letters; Chinese, Japanese and Korean have about one token a character."""

IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"

_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")


def estimated_tokens(text: str) -> int:
    """One for each character of Chinese, Japanese or Korean, and one for each four others, rounded up."""
    wide = len(_IDEOGRAPH.findall(text))
    return wide - (len(text) - wide) // -CHARS_PER_TOKEN
