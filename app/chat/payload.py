"""JSON of chat bodies and chunks: fast where possible, forgiving where providers are odd."""

from __future__ import annotations

import json
from typing import Any

import orjson

from app.errors import BadRequestError


def loads(data: bytes | str) -> Any:
    """Parse JSON; ``ValueError`` when it is none.

    The fast parser refuses lone surrogates, which arrive when a provider cuts an emoji between two chunks, and
    ``NaN``; the standard one reads them.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)


def dumps(value: Any) -> bytes:
    """Write compact UTF-8 JSON; lone surrogates and integers of any size are written as escapes and digits.

    Raises BadRequestError for JSON that is nested deeper than it can be written: reading goes a little deeper.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return json.dumps(value, separators=(",", ":")).encode("ascii")
    except RecursionError as error:
        raise BadRequestError("the JSON is nested too deeply") from error


def joined_text(pieces: list[str]) -> str:
    """The pieces as one text, with surrogate pairs that were cut between pieces put together again."""
    text = "".join(pieces)
    if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
