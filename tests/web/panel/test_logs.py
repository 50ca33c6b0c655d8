"""The log as a page: newest lines, older ones, filters, hostile lines, the live stream, downloads of any size."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.web.panel import logs
from tests.server import run
from tests.waiting import until
from tests.web.panel.visitor import HOSTILE, Visitor, visiting

NEW, OLD = "ServerLog-20251130_120000_000.txt", "ServerLog-20251129_120000_000.txt"


def line(number: int, level: str = "INFO", text: str = "entry") -> str:
    return f"[2025-11-30 12:00:00.{number % 1000:03d}+08:00] [{level}] app.turns: {text} {number}\n"


def log(home: Path, text: str, name: str = NEW, age: int = 0) -> Path:
    path = home / "DebugLog" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if age:
        os.utime(path, (1_764_000_000 - age,) * 2)
    return path


def test_a_home_without_a_log_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            assert "There is no log" in await visitor.page("/logs")
            assert "没有日志文件" in await visitor.page("/logs", language="zh")

    run(main())


def test_the_page_shows_the_newest_entries_and_leads_to_older_ones(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            log(tmp_path, "".join(line(number) for number in range(500)))
            log(tmp_path, line(0, text="of yesterday"), OLD, age=99)
            page = await visitor.page("/logs")
            assert "entry 499" in page and "entry 300" in page and "entry 299<" not in page
            assert OLD in page and "data-stream=" in page
            older = page.partition('rel="prev" href="/AdminPanel')[2].partition('"')[0].replace("&amp;", "&")
            second = await visitor.page(older)
            assert "entry 299<" in second and "entry 300" not in second and "data-stream=" not in second
            assert "of yesterday" in await visitor.page(f"/logs?file={OLD}")

    run(main())


def test_level_and_text_choose_entries(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            log(tmp_path, line(1) + line(2, "WARNING") + line(3, "ERROR", "needle") + "Traceback\n  in x\n" + line(4))
            page = await visitor.page("/logs?level=WARNING")
            assert "entry 2" in page and "needle 3" in page and "Traceback" in page and "entry 1" not in page
            page = await visitor.page("/logs?q=NEEDLE")
            assert "needle 3" in page and "entry 2" not in page and 'value="NEEDLE"' in page
            assert "Nothing fits" in await visitor.page("/logs?q=missing&level=nonsense")

    run(main())


def test_lines_that_others_chose_are_only_text_and_a_page_stays_small(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            log(tmp_path, line(1, text=HOSTILE) + "".join(line(number, text="<" * 9000) for number in range(400)))
            for path in (f"/logs?q={HOSTILE[2:20]}", "/logs", "/logs?before=400"):
                page = await visitor.page(path)
                assert "<img src=x" not in page and "<script>" not in page
            shown = await visitor.page("/logs")
            assert len(shown.encode()) < 300_000
            assert "&lt;" in shown

    run(main())


@pytest.mark.parametrize(
    "name", ["../config.env", "..%2F..%2Fetc%2Fpasswd", "%00", "ServerLog-20200101_000000_000.txt"]
)
def test_files_that_are_none_of_the_log_are_neither_shown_nor_sent(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            log(tmp_path, line(1))
            page = await visitor.page(f"/logs?file={name}", status=404)
            assert "gone" in page and "AdminPassword" not in page
            download = await visitor.client.get(f"/AdminPanel/logs/download?file={name}")
            assert download.status_code == 404

    run(main())


def test_a_file_is_downloaded_whole_under_its_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            path = log(tmp_path, "".join(line(number) for number in range(20_000)))
            answer = await visitor.client.get("/AdminPanel/logs/download")
            assert answer.content == path.read_bytes()
            assert answer.headers["content-disposition"] == f'attachment; filename="{NEW}"'
            assert answer.headers["x-content-type-options"] == "nosniff"
            again = log(tmp_path, "old\n", OLD, age=99)
            answer = await visitor.client.get(f"/AdminPanel/logs/download?file={OLD}")
            assert answer.content == again.read_bytes()

    run(main())


def test_without_a_log_on_disk_old_files_are_shown_and_nothing_is_live(tmp_path: Path) -> None:
    async def main() -> None:
        async with visiting(tmp_path, config=["ServerLog=false"]) as visitor:
            log(tmp_path, line(1))
            page = await visitor.page("/logs")
            assert "ServerLog=false" in page and "entry 1" in page and "data-stream" not in page

    run(main())


@asynccontextmanager
async def following(visitor: Visitor, query: str = "", **headers: str) -> AsyncIterator[list[tuple[str, Any, str]]]:
    """The events of the stream as they come: kind, data and id."""
    events: list[tuple[str, Any, str]] = []

    async def read(response: httpx.Response) -> None:
        fields: dict[str, str] = {}
        async for text in response.aiter_lines():
            name, _, value = text.partition(": ")
            if not text and "event" in fields:
                events.append((fields["event"], json.loads(fields["data"]), fields.get("id", "")))
                fields = {}
            elif text:
                fields[name] = value

    async with visitor.client.stream("GET", f"/AdminPanel/logs/stream?{query}", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        reading = asyncio.create_task(read(response))
        try:
            await until(lambda: events)
            yield events
        finally:
            reading.cancel()


def told(events: list[tuple[str, Any, str]]) -> list[str]:
    return [entry["text"] for kind, data, _ in events if kind == "entries" for entry in data["entries"]]


def test_new_lines_come_by_themselves_over_a_change_of_files_and_from_where_it_broke_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(logs, "LOOK_SECONDS", 0.01)

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            path = log(tmp_path, line(1), OLD)
            async with following(visitor, f"from={OLD}:{path.stat().st_size}&level=WARNING") as events:
                with path.open("a", encoding="utf-8") as file:
                    file.write(line(2, "WARNING") + line(3))
                await until(lambda: told(events) == ["entry 2"])
                with path.open("a", encoding="utf-8") as file:
                    file.write(line(4, "ERROR", HOSTILE))
                os.utime(path, (1000, 1000))
                log(tmp_path, line(5, "ERROR"))
                await until(lambda: len(told(events)) == 3)
                assert told(events) == ["entry 2", f"{HOSTILE} 4", "entry 5"]
                place = events[-1][2]
            assert place == f"{NEW}:{(tmp_path / 'DebugLog' / NEW).stat().st_size}"
            with (tmp_path / "DebugLog" / NEW).open("a", encoding="utf-8") as file:
                file.write(line(6))
            async with following(visitor, "from=x:0", **{"last-event-id": place}) as events:
                await until(lambda: told(events) == ["entry 6"])
                (tmp_path / "DebugLog" / NEW).write_text(line(7), encoding="utf-8")  # cleared, and begun anew
                await until(lambda: told(events)[-1:] == ["entry 7"])

    run(main())


def test_who_is_far_behind_is_told_that_lines_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(logs, "LOOK_SECONDS", 0.01)

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            log(tmp_path, "".join(line(number, text="x" * 1000) for number in range(3000)))
            async with following(visitor, f"from={NEW}:0") as events:
                await until(lambda: told(events)[-1:] == ["x" * 1000 + " 2999"])
                assert events[1][1]["skipped"] > 0
                assert len(told(events)) < 2500

    run(main())


def test_streams_are_limited_and_end_with_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(logs, "MAX_STREAMS", 1)

    async def main() -> None:
        async with visiting(tmp_path) as visitor:
            log(tmp_path, line(1))
            address = "/AdminPanel/logs/stream"
            async with visitor.client.stream("GET", address) as response:
                lines = response.aiter_lines()
                while await anext(lines) != "event: open":
                    pass
                assert (await visitor.client.get(address)).status_code == 503
                visitor.server.services.stopping.begin(5)
                async for _ in lines:
                    pass

    run(main())
