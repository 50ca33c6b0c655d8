"""``/healthz`` and ``/readyz`` while the server starts, runs and stops (D35)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.services import Services
from app.web.app import create_app
from tests.web.asgi import KEY, ask, services_in


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


class Part:
    """A part that is as well as the test says."""

    said = ""

    async def start(self) -> None:
        """Nothing to begin."""

    def health(self) -> str:
        return self.said

    async def stop(self) -> None:
        """Nothing to end."""


def test_what_is_wrong_with_a_part_is_for_the_log_and_the_answer_stays_one_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> list[tuple[int, bytes]]:
        part = Part()
        services = Services(services_in(tmp_path).config, KEY, lifecycles=(part,))
        app = create_app(services)
        seen = []
        async with services.running_parts():
            for said in ("", "the store is gone", "the store is gone", "", "the store is gone"):
                part.said = said
                answer = await ask(app, "GET", "/readyz")
                seen.append((answer.status, answer.body))
        return seen

    unwell = (503, b"unwell")
    assert asyncio.run(main()) == [(200, b"ready"), unwell, unwell, (200, b"ready"), unwell]
    assert [record.getMessage() for record in caplog.records] == ["not ready: the store is gone"] * 2
