"""JSON of chat bodies and chunks: fast where possible, forgiving where providers are odd."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson

from app.errors import BadRequestError, both

_BEYOND_64_BITS = 2.0**63


def loads(data: bytes | str) -> Any:
    """Parse JSON; ``ValueError`` when it is none.

    The fast parser refuses lone surrogates, which arrive when a provider cuts an emoji between two chunks, and
    ``NaN``; the standard one reads them.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)


def loads_request(data: bytes) -> Any:
    """Parse what a client sent: whole numbers of any size keep every digit, for they are only passed on.

    The fast parser makes decimals of those beyond 64 bits. Messages are not searched for them: they hold text.
    """
    value = loads(data)
    fields = [field for name, field in value.items() if name != "messages"] if isinstance(value, dict) else []
    while fields:
        field = fields.pop()
        if isinstance(field, float) and abs(field) >= _BEYOND_64_BITS:
            return json.loads(data)
        if isinstance(field, dict | list):
            fields.extend(field.values() if isinstance(field, dict) else field)
    return value


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
        raise BadRequestError(both("JSON 嵌套太深", "the JSON is nested too deeply")) from error


MAX_TEXTS = 50_000
"""Most messages and content parts of one request, together: each costs the loop some 20 µs before anything is sent."""


def checked_messages(body: dict[str, Any]) -> dict[str, Any]:
    """The chat body itself; ``BadRequestError`` when its messages are none (D10), or too many."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError(
            both("'messages' 必须是至少含一条消息的列表", "'messages' must be a list of at least one message")
        )
    for position, message in enumerate(messages):
        if not isinstance(message, dict):
            raise BadRequestError(
                both(
                    f"'messages[{position}]' 必须是含 'role' 和 'content' 的对象",
                    f"'messages[{position}]' must be an object with 'role' and 'content'",
                )
            )
    contents = (message.get("content") for message in messages)
    texts = len(messages) + sum(len(content) for content in contents if isinstance(content, list))
    if texts > MAX_TEXTS:
        raise BadRequestError(
            both(
                f"'messages' 含 {texts} 条消息和内容片段，上限为 {MAX_TEXTS}，请缩短对话",
                f"'messages' holds {texts} messages and parts, at most {MAX_TEXTS} are taken; shorten the conversation",
            )
        )
    return body


def with_attached(messages: Sequence[dict[str, Any]], parts: Sequence[Any]) -> list[dict[str, Any]]:
    """The messages with content parts behind those of the last user message; as they are where there is none."""
    attached = list(messages)
    for index in range(len(attached) - 1, -1, -1):
        if attached[index].get("role") != "user":
            continue
        content = attached[index].get("content")
        own = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
        attached[index] = {**attached[index], "content": [*own, *parts]}
        break
    return attached
