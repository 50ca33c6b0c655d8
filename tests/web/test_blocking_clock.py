"""How long an address stays blocked is measured, not read off the clock on the wall."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.web.blocking import KEY_FAILURES
from tests.server import run, running


def test_a_clock_that_is_set_neither_lifts_nor_prolongs_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift = [0.0]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + shift[0])

    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=["TrustedProxies=127.0.0.1"]) as server:
            sent = {"X-Forwarded-For": "203.0.113.9"}
            for _ in range(KEY_FAILURES):
                answer = await server.client.get("/v1/models", headers={**sent, "Authorization": "Bearer wrong"})
                assert answer.status_code == 401
            for shift[0] in (0.0, 86_400.0, -86_400.0):
                answer = await server.client.post("/v1/interrupt", headers=sent, json={"requestId": "x"})
                assert answer.status_code == 403

    run(main())
