"""``/healthz`` and ``/readyz`` while the server starts, runs and stops (D35)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.web.app import create_app
from tests.web.asgi import ask, services_in


def test_ready_is_true_only_between_the_start_and_the_stop_while_health_always_answers(tmp_path: Path) -> None:
    async def main() -> None:
        services = services_in(tmp_path)
        app = create_app(services)

        async def seen() -> tuple[int, bytes, int, bytes]:
            health, ready = await ask(app, "GET", "/healthz"), await ask(app, "GET", "/readyz")
            assert ready.headers["content-type"] == "text/plain; charset=utf-8"
            return health.status, health.body, ready.status, ready.body

        assert await seen() == (200, b"ok", 503, b"starting")
        async with services.running_parts():
            assert await seen() == (200, b"ok", 200, b"ready")
        assert (await seen())[2] == 503

    asyncio.run(main())
