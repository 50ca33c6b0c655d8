"""Secrets of our own never leave in what clients are told, whatever tool printed them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote

from app.extend import Json
from app.protocol.arguments import fold
from app.protocol.secret_texts import MASK

SHORTEST_SECRET = 6
"""What is shorter is a part of too many words and numbers to be masked."""

_PASSWORD = fold("tool_password")
_NEVER = re.compile(r"(?!)")


class Masks:
    """Masks secrets in values; ``secrets`` gives those of now (empty ones count as none).

    A secret is found as it is, as JSON writes it inside a text, and as an address does. Values of fields that are
    called ``tool_password``, in any spelling, are masked too.
    """

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        self._secrets = secrets
        self._made: tuple[frozenset[str], _Finder] = frozenset(), _Finder(())  # one value: threads ask at any time

    def suspects(self, data: bytes) -> bool:
        """Whether JSON in UTF-8 may hold something to mask."""
        return b"password" in data.lower() or self._of_now(()).suspects(data)

    def text(self, text: str, *more: str) -> str:
        """The text without the secrets and without ``more``."""
        return self._of_now(more).masked(text)

    def value(self, value: Json, *more: str) -> Json:
        """The value without them; a number that is one becomes a text. Raises RecursionError for a value too deep."""
        return _masked(value, self._of_now(more))

    def of_this_moment(self) -> Callable[[Json], Json]:
        """What masks values as ``value`` does, with the secrets of this moment: for many values at once."""
        finder = self._of_now(())
        return lambda value: _masked(value, finder)

    def _of_now(self, more: Iterable[str]) -> _Finder:
        secrets = frozenset(one for one in (*self._secrets(), *more) if len(one) >= SHORTEST_SECRET)
        known, finder = self._made
        if secrets != known:
            finder = _Finder(secrets)
            self._made = secrets, finder
        return finder


class _Finder:
    """Looks for some secrets. Searching for plain texts first is many times quicker than one expression for all."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            forms |= {secret, quote(secret, safe="", errors="replace")}
            forms |= {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
        # The longest first, for one may begin with another. A code of digits is not a part of a longer number.
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._encoded = tuple(form.encode("utf-8", "replace") for form in self._forms)
        patterns = [rf"(?<![0-9]){form}(?![0-9])" if form.isdecimal() else re.escape(form) for form in self._forms]
        self._pattern = re.compile("|".join(patterns)) if patterns else _NEVER

    def suspects(self, data: bytes) -> bool:
        return any(form in data for form in self._encoded)

    def masked(self, text: str) -> str:
        if len(text) < SHORTEST_SECRET or not any([form in text for form in self._forms]):
            return text
        return self._pattern.sub(MASK, text)

    def is_secret(self, text: str) -> bool:
        return text in self._forms


def _masked(value: Json, finder: _Finder) -> Json:
    if isinstance(value, str):
        return finder.masked(value)
    if isinstance(value, Mapping):
        return {
            _masked(name, finder): MASK
            if isinstance(name, str) and fold(name) == _PASSWORD and item
            else _masked(item, finder)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(item, finder) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 256:
        return MASK if finder.is_secret(str(value)) else value
    return value
