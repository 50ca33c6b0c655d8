"""What stands between the web server and the SDK's sessions."""

from __future__ import annotations

from typing import Any

import pytest
from anyio import ClosedResourceError
from mcp.server.lowlevel import Server

from app.mcp.server.http_sessions import HttpSessions, _OneAnswer
from app.mcp.server.principal import KEY_HOLDER, HttpCaller
from tests.server import run


def test_what_comes_after_the_end_of_an_answer_is_dropped() -> None:
    """The web server would cut the connection, and the client's next request with it."""

    async def main() -> None:
        told: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            told.append(message)

        start = {"type": "http.response.start", "status": 202, "headers": []}
        more = {"type": "http.response.body", "body": b"a", "more_body": True}
        end = {"type": "http.response.body", "body": b""}
        once = _OneAnswer(send)
        for message in (start, more, end, {**start, "status": 500}, end):
            await once(message)
        assert told == [start, more, end]

    run(main())


@pytest.mark.parametrize("answered", [True, False])
def test_a_session_that_ends_after_an_answer_costs_no_connection(*, answered: bool) -> None:
    """The SDK hands a notification on after it has answered it; what it raises then would cut the next request."""

    async def main() -> None:
        told: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            told.append(message)

        async def ends(_scope: Any, _receive: Any, send: Any) -> None:
            if answered:
                await send({"type": "http.response.start", "status": 202, "headers": []})
                await send({"type": "http.response.body", "body": b""})
            raise ClosedResourceError

        sessions = HttpSessions(Server("test"), max_sessions=lambda: 1, idle_seconds=lambda: 1.0)
        sessions._handle = ends  # type: ignore[assignment]  # what the SDK does when the session ends just then
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
        body = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}'
        asked = sessions.handle(scope, send, send, HttpCaller(KEY_HOLDER, "127.0.0.1", 0), body)  # type: ignore[arg-type]
        if answered:
            await asked
            assert [one["type"] for one in told] == ["http.response.start", "http.response.body"]
        else:
            with pytest.raises(ClosedResourceError):
                await asked

    run(main())
