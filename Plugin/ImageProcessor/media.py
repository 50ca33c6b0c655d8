"""Media inside messages: finding it, taking it out, putting its description in (memory.md 6.3; vcp-core 3.8)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

MEDIA_BYTES = 64 * 1024 * 1024
"""Decoded bytes of one picture, sound or film."""

MEDIA_LIMIT = 200
"""Media of one request that are described."""

FAILED = "多模态数据转译失败: "
UNCONFIGURED = "多模态数据转译服务配置不完整"
ERROR_CHARS = 100

_DATA_URI = re.compile(r"data:(?:image|audio|video)/[A-Za-z0-9.+-]{1,100}(?:;[A-Za-z0-9=.+_\"-]{1,100}){0,5}?;base64,")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BLANKS = re.compile(r"[ \t\r\n]+")


@dataclass(frozen=True, slots=True)
class Medium:
    """A medium in its data URI. ``message`` and ``part`` say where it stands; ``prefix`` ends before ``base64,``."""

    message: int
    part: int
    prefix: str
    data: str

    @property
    def uri(self) -> str:
        """As it came."""
        return f"{self.prefix}base64,{self.data}"


def media_in(messages: Sequence[Message]) -> list[Medium]:
    """All media of user messages, in order."""
    found: list[Medium] = []
    for place, message in enumerate(messages):
        content = message.get("content")
        if message.get("role") != "user" or not isinstance(content, list):
            continue
        for number, part in enumerate(content):
            uri = _uri(part)
            match = _DATA_URI.match(uri) if uri else None
            if match is not None:
                found.append(Medium(place, number, match[0].removesuffix("base64,"), uri[match.end() :]))
    return found


def _uri(part: object) -> str:
    if not isinstance(part, dict) or part.get("type") != "image_url":
        return ""
    value = part.get("image_url")
    url = value.get("url") if isinstance(value, Mapping) else value
    return url if isinstance(url, str) else ""


def decoded(data: str) -> bytes:
    """The bytes; blanks in between do not count. ValueError for what is no base64, empty, or too large."""
    if len(data) > MEDIA_BYTES * 4 // 3 + 1024:
        raise ValueError(f"larger than {MEDIA_BYTES // 1024 // 1024} MB")
    text = _BLANKS.sub("", data).rstrip("=")
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=None, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64") from None
    if not content:
        raise ValueError("empty")
    return content


def fingerprint(content: bytes) -> str:
    """What a medium is known by: SHA-256 of its bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def cleaned(description: str) -> str:
    """A description without control characters."""
    return _CONTROL.sub("", description).strip()


def failure(reason: str) -> str:
    """What stands in place of a description that could not be had."""
    return FAILED + " ".join(reason.split())[:ERROR_CHARS]


def described(
    messages: Sequence[Message], media: Sequence[Medium], texts: Sequence[str], insert_prompt: str
) -> list[Message]:
    """Messages without the media, with their descriptions behind the first text of each message; a new list.

    Numbers count over the whole request, from 1.
    """
    result = list(messages)
    for place in dict.fromkeys(medium.message for medium in media):
        own = [(number, medium) for number, medium in enumerate(media) if medium.message == place]
        taken = {medium.part for _, medium in own}
        content = [part for number, part in enumerate(messages[place]["content"]) if number not in taken]
        lines = "\n".join(f"[MULTIMODAL_DATA_{number + 1}_Info: {texts[number]}]" for number, _ in own)
        first = next((at for at, part in enumerate(content) if _is_text(part)), -1)
        if first < 0:
            content, first = [{"type": "text", "text": ""}, *content], 0
        text = f"{content[first]['text'].strip()}\n{insert_prompt}\n{lines}"
        content[first] = {**content[first], "text": text}
        result[place] = {**messages[place], "content": content}
    return result


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
