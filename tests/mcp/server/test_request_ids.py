"""Ids in use, by session (MCP-4)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors import BadRequestError
from app.mcp.server.request_ids import RequestIds, request_id
from tests.server import run


def context(id: Any, session: str | None = "s") -> Any:
    """What of the SDK's context is looked at."""
    return SimpleNamespace(request_id=id, session=SimpleNamespace(_connection=SimpleNamespace(session_id=session)))


def test_mcp_4_an_id_is_taken_until_the_work_ends_whoever_still_waits_for_it() -> None:
    async def main() -> None:
        ids, go = RequestIds(), asyncio.Event()

        async def work(_context: Any) -> None:
            await go.wait()

        async with ids.taken("s", 7):
            working = asyncio.create_task(ids.followed(context(7), work))  # type: ignore[arg-type]
            await asyncio.sleep(0)
        assert len(ids) == 1  # its client has hung up
        for same in (7, "7"):
            with pytest.raises(BadRequestError):
                async with ids.taken("s", same):
                    pass
        async with ids.taken("other", 7):
            pass
        go.set()
        await working
        async with ids.taken("s", 7):
            assert len(ids) == 1
        assert len(ids) == 0  # what was refused before its work began

    run(main())


def test_only_messages_that_want_an_answer_have_an_id() -> None:
    assert request_id({"id": 1, "method": "m"}) == 1
    for message in ({"method": "m"}, {"id": True, "method": "m"}, {"id": 1, "result": {}}, [], None):
        assert request_id(message) is None
