"""What an entry gives its server in confidence is taken out of errors and log lines, where servers like to quote it.

Models, clients and whoever reads the log see those; a page that says "500" often shows the request with its headers.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from app.mcp.client.server_entry import ServerEntry
from app.protocol.secret_texts import MASK

SHORTEST_SECRET = 6
"""What is shorter is a part of too many words to be masked."""

MAX_TOKENS = 8
"""Of those that were sent to the server, the last."""

_SECRET_NAME = re.compile(r"key|token|secret|passw|auth|cred|cookie|session|bearer|\bpw\b|\bpat\b", re.IGNORECASE)
_SCHEMES = frozenset({"bearer", "basic"})
_PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})


class EntrySecrets:
    """The secrets of one server: values of headers, those of variables and options that are called so, and tokens."""

    def __init__(self, entry: ServerEntry) -> None:
        self._fixed = tuple(dict.fromkeys(_secrets_of(entry)))
        self._tokens: dict[str, None] = {}
        self._all: tuple[str, ...] = ()
        self._sort()

    def sent(self, authorization: str) -> None:
        """A request went out with this ``Authorization`` header."""
        if authorization and authorization not in self._tokens:
            self._tokens[authorization] = None
            while len(self._tokens) > MAX_TOKENS:
                del self._tokens[next(iter(self._tokens))]
            self._sort()

    def clean(self, text: str) -> str:
        """The text without them."""
        for secret in self._all:
            text = text.replace(secret, MASK)
        return text

    def _sort(self) -> None:
        words = {
            word
            for text in (*self._fixed, *self._tokens)
            for word in (text, *text.split())
            if word.lower() not in _SCHEMES
        }
        forms = {form for word in words for form in (word, quote(word, safe=""))}
        self._all = tuple(sorted((form for form in forms if len(form) >= SHORTEST_SECRET), key=len, reverse=True))


def _secrets_of(entry: ServerEntry) -> Iterator[str]:
    yield from (value for name, value in entry.headers.items() if name.lower() not in _PLAIN_HEADERS)
    yield from (value for name, value in entry.env.items() if _SECRET_NAME.search(name))
    before = ""
    for argument in entry.args:
        name, mark, value = argument.partition("=")
        if mark and _SECRET_NAME.search(name):
            yield value
        elif before.startswith("-") and "=" not in before and _SECRET_NAME.search(before):
            yield argument
        before = argument
    if entry.oauth is not None:
        yield entry.oauth.client_secret
    parts = urlsplit(entry.url)
    yield from (value for _, value in parse_qsl(parts.query))
    if parts.password:
        yield unquote(parts.password)
        both = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
        yield base64.b64encode(both.encode()).decode("ascii")
