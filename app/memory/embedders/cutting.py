"""Texts that are too long for a model are cut at their end (memory.md 3.4: skipping them moved all later vectors)."""

from __future__ import annotations

from bisect import bisect_right

from app.protocol.token_estimate import CHARS_PER_TOKEN, estimated_tokens


def cut(text: str, max_tokens: int) -> str:
    """As much of the beginning of ``text`` as has ``max_tokens`` estimated tokens; one character at least."""
    if len(text) <= max_tokens:
        return text
    longest = text[: max(1, max_tokens * CHARS_PER_TOKEN)]
    if estimated_tokens(longest) <= max_tokens:
        return longest
    length = bisect_right(range(len(longest) + 1), max_tokens, key=lambda size: estimated_tokens(longest[:size])) - 1
    return longest[: max(1, length)]
