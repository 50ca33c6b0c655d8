"""Recognises chunks that say nothing new but their text, without parsing their JSON."""

from __future__ import annotations

from typing import Any

from app.chat.payload import dumps, loads

MAX_VAIN = 16
"""How often a form is learned without being met again; some upstreams put a new random value into every chunk."""

_PROBE = "probe"


class ChunkSkeleton:
    """All bytes of a chunk but its content.

    Upstreams write the chunks of one answer alike. One that begins and ends as an earlier one, with a plain JSON string
    between, differs from it in that string only. So it parses to the same values, and the string is its content.
    """

    __slots__ = ("_end", "_start", "_vain")

    def __init__(self) -> None:
        self._start = b""
        self._end = b""
        self._vain = 0

    def content_of(self, data: bytes) -> str:
        """The content of a chunk of the known form; empty for everything else, which has to be parsed."""
        if not self._start or not (data.startswith(self._start) and data.endswith(self._end)):
            return ""
        text = data[len(self._start) : -len(self._end)]
        if b'"' in text or b"\\" in text:
            return ""
        try:
            content = text.decode()
        except UnicodeDecodeError:
            return ""
        if not content.isprintable():  # JSON allows no control characters: a parser must decide
            return ""
        self._vain = 0
        return content

    def learn(self, data: bytes, chunk: dict[str, Any], content: str) -> None:
        """Remember the form of ``data``, which parses to ``chunk`` with one choice that has this content.

        Nothing is taken on trust: with another content in the same place the same chunk with that content must come
        out. So neither a field that happens to hold the same text nor an escape can deceive.
        """
        quoted = dumps(content)
        at = data.find(quoted)
        if self._vain >= MAX_VAIN or at < 0:
            return
        start, end = data[: at + 1], data[at + len(quoted) - 1 :]
        if start == self._start and end == self._end:
            return
        self._vain += 1
        choice = chunk["choices"][0]
        expected = {**chunk, "choices": [{**choice, "delta": {**choice["delta"], "content": _PROBE}}]}
        try:
            found = loads(start + _PROBE.encode() + end)
        except ValueError:
            return
        if found == expected:
            self._start, self._end = start, end
