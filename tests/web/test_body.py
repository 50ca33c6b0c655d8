"""Reading of request bodies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.errors import BodyTimeoutError, UnsupportedMediaError
from app.web.body import ClientGoneError, read_body


def scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http", "headers": list(headers)}


def receiver(*messages: dict[str, Any]) -> Any:
    remaining = iter(messages)

    async def receive() -> dict[str, Any]:
        message = next(remaining, None)
        if message is None:
            await asyncio.Event().wait()
        assert message is not None
        return message

    return receive


def test_the_blocks_are_joined() -> None:
    receive = receiver(
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "more_body": True},
        {"type": "http.request", "body": b"c"},
    )
    assert asyncio.run(read_body(scope(), receive, 3)) == b"abc"


def test_a_client_that_falls_silent_is_not_waited_for_without_end() -> None:
    receive = receiver({"type": "http.request", "body": b"ab", "more_body": True})
    with pytest.raises(BodyTimeoutError):
        asyncio.run(read_body(scope(), receive, 3, silence=0.01))


def test_a_client_that_hangs_up_ends_the_reading() -> None:
    receive = receiver({"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.disconnect"})
    with pytest.raises(ClientGoneError):
        asyncio.run(read_body(scope(), receive, 3))


@pytest.mark.parametrize(("encoding", "read"), [(b"gzip", False), (b"BR", False), (b"identity", True), (b"", True)])
def test_a_compressed_body_is_refused_by_name(encoding: bytes, read: bool) -> None:
    headers = scope((b"content-encoding", encoding))
    receive = receiver({"type": "http.request", "body": b"x"})
    if read:
        assert asyncio.run(read_body(headers, receive, 3)) == b"x"
    else:
        with pytest.raises(UnsupportedMediaError, match="Content-Encoding"):
            asyncio.run(read_body(headers, receive, 3))


@pytest.mark.parametrize("declared", [b"abc", b"-1", b"\xb2"])
def test_a_length_that_is_none_does_no_harm(declared: bytes) -> None:
    receive = receiver({"type": "http.request", "body": b"x"})
    assert asyncio.run(read_body(scope((b"content-length", declared)), receive, 3)) == b"x"
