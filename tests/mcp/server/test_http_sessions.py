"""What stands between the web server and the SDK's sessions."""

from __future__ import annotations

from typing import Any

from app.mcp.server.http_sessions import _one_answer
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
        once = _one_answer(send)
        for message in (start, more, end, {**start, "status": 500}, end):
            await once(message)
        assert told == [start, more, end]

    run(main())
