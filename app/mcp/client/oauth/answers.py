"""Answers of authorization servers: read within limits, and told of without what may be secret."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx2
from mcp.client.auth.exceptions import OAuthFlowError

from app.errors import both
from app.mcp.client.oauth.errors import SignInError, error_word

ANSWER_BYTES = 1024 * 1024
"""Of one answer with metadata, a registration or tokens."""


async def read_answer(answer: httpx2.Response) -> None:
    """Read an answer, of which there may be so much and no more."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise SignInError(both("授权服务器的回答被压缩", "an answer of the authorization server is compressed"))
    answer.stream = _Limited(answer.stream)
    await answer.aread()


class _Limited(httpx2.AsyncByteStream):
    """Another stream, which ends with an error after ``ANSWER_BYTES``."""

    def __init__(self, stream: object) -> None:
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for block in self._stream:
            size += len(block)
            if size > ANSWER_BYTES:
                raise SignInError(both("授权服务器的回答过大", "an answer of the authorization server is too large"))
            yield block

    async def aclose(self) -> None:
        await self._stream.aclose()


def error_of(answer: httpx2.Response) -> str:
    try:
        body = json.loads(answer.content)
    except (ValueError, RecursionError):
        return "-"
    return error_word(body.get("error")) if isinstance(body, dict) else "-"


def said_of(error: OAuthFlowError) -> str:
    """What the SDK says of a fault, without the bodies that it may quote."""
    text = str(error) if type(error) is OAuthFlowError else str(error).partition(":")[0]
    shown = "".join(char if char.isprintable() else " " for char in text[:300])
    return both("OAuth 登录失败", "signing in failed") + f": {shown}"
