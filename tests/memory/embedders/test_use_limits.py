"""Limits of a paid model: in a minute and on a day (part 4)."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app.errors import EmbeddingError
from app.memory.embedders.use_limits import USE_FILE, Limits, UseLimits
from tests.server import run

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOON = datetime(2025, 11, 27, 12, tzinfo=SHANGHAI).timestamp()


class Bench:
    def __init__(self, home: Path, zone: tzinfo = SHANGHAI, **limits: int) -> None:
        self.limits, self.now, self.timer, self.file = Limits(**limits), NOON, 0.0, home / USE_FILE
        self.use = UseLimits(
            lambda: self.limits, self.file, timer=lambda: self.timer, clock=lambda: self.now, zone=lambda: zone
        )


def test_without_limits_nothing_waits_and_nothing_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path)
        assert [await bench.use.admit(10**9) for _ in range(5)] == [0.0] * 5
        assert bench.use.use is not None and bench.use.use.requests == 5
        assert not bench.file.exists()

    run(main())


def test_requests_in_a_minute_wait_for_the_oldest_to_grow_old(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path, minute_requests=2)
        assert await bench.use.admit(1) == 0
        bench.timer = 20
        assert await bench.use.admit(1) == 0
        assert await bench.use.admit(1) == 40
        bench.timer = 60
        assert await bench.use.admit(1) == 0
        assert await bench.use.admit(1) == 20

    run(main())


def test_tokens_in_a_minute_wait_for_as_many_as_are_needed(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path, minute_tokens=100)
        for at, tokens in ((0, 50), (10, 30), (20, 20)):
            bench.timer = at
            assert await bench.use.admit(tokens) == 0
        assert await bench.use.admit(10) == 40
        assert await bench.use.admit(60) == 50
        assert await bench.use.admit(1000) == 60
        bench.timer = 80
        assert await bench.use.admit(1000) == 0, "alone in its minute"

    run(main())


def test_a_used_up_day_says_how_long_it_is_to_midnight_and_the_next_day_begins_anew(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path, day_tokens=100)
        assert await bench.use.admit(60) == 0
        assert await bench.use.admit(60) == 0
        with pytest.raises(EmbeddingError, match="daily limit") as caught:
            await bench.use.admit(1)
        assert caught.value.retry_after == 12 * 3600
        bench.now += 12 * 3600
        assert await bench.use.admit(60) == 0
        assert json.loads(bench.file.read_text()) == {"day": "2025-11-28", "requests": 1, "tokens": 60}

    run(main())


def test_the_day_ends_at_midnight_of_the_configured_zone(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path, zone=UTC, day_requests=1)
        await bench.use.admit(1)
        with pytest.raises(EmbeddingError) as caught:
            await bench.use.admit(1)
        assert caught.value.retry_after == 20 * 3600

    run(main())


def test_a_restart_forgets_nothing_of_the_day(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(2):
            assert await Bench(tmp_path, day_requests=2).use.admit(5) == 0
        with pytest.raises(EmbeddingError):
            await Bench(tmp_path, day_requests=2).use.admit(5)

    run(main())


def test_a_changed_setting_counts_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path, day_requests=1)
        await bench.use.admit(1)
        bench.limits = Limits(day_requests=2)
        assert await bench.use.admit(1) == 0

    run(main())


ODD = [b"", b"{", b"\xff\xfe", b"[]", b"5", b'{"day": 5, "requests": 1, "tokens": 1}', b"[" * 5000]
ODD += [
    b'{"day": "2025-11-27", "requests": -5, "tokens": "x"}',
    b'{"day": "2025-11-27", "requests": true, "tokens": 1}',
]


@pytest.mark.parametrize("data", ODD)
def test_a_file_that_makes_no_sense_counts_as_none(tmp_path: Path, data: bytes) -> None:
    async def main() -> None:
        bench = Bench(tmp_path, day_requests=1)
        bench.file.parent.mkdir(parents=True)
        bench.file.write_bytes(data)
        assert await bench.use.admit(1) == 0
        assert json.loads(bench.file.read_text())["requests"] == 1

    run(main())


def test_a_full_disk_is_told_and_the_count_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        bench = Bench(tmp_path, day_requests=1)
        monkeypatch.setattr(os, "fsync", full)
        with caplog.at_level(logging.WARNING):
            assert await bench.use.admit(1) == 0
        assert "not saved" in caplog.text
        with pytest.raises(EmbeddingError):
            await bench.use.admit(1)

    run(main())
