"""Scheduled calls in the panel: lists, running one now, calling one off, a new one; hostile tasks are text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server import ECHO, Running, run, running, write_plugin
from tests.web.panel.visits import HOSTILE, LOGIN, Visits, is_harmless, text_of, visit

LATER = "2999-01-05T08:00"


class Page:
    """Pages of a server that runs."""

    def __init__(self, server: Running) -> None:
        self._server = server

    async def get(self, path: str) -> str:
        answer = await self._server.client.get(f"/AdminPanel/{path}", headers=dict([LOGIN]))
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    async def post(self, path: str, **form: str) -> Any:
        return await self._server.client.post(f"/AdminPanel/{path}", data=form, headers=dict([LOGIN]))

    async def until(self, path: str, word: str) -> str:
        for _ in range(400):
            if word in (page := await self.get(path)):
                return page
            await asyncio.sleep(0.02)
        raise AssertionError(f"{word} never came: {page}")


def with_server(home: Path, test: Callable[[Page, Running], Awaitable[None]]) -> None:
    async def main() -> None:
        write_plugin(home, "Echo", ECHO)
        async with running(
            home, "http://127.0.0.1:9", config=["AdminUsername=admin", "AdminPassword=secret"]
        ) as server:
            await test(Page(server), server)

    run(main())


def test_a_call_is_scheduled_run_at_once_and_its_result_shown_and_deleted(tmp_path: Path) -> None:
    async def test(panel: Page, _server: Running) -> None:
        form = {"tool": "Echo", "when": LATER, "arguments": '{"text": "das Ergebnis"}', "id": "meine-1"}
        made = await panel.post("schedules/new", **form)
        assert made.headers["location"] == "/AdminPanel/schedules?done=made"
        page = await panel.until("schedules", "meine-1")
        assert "2999-01-05 08:00:00" in page
        await panel.post("schedules/run", name="meine-1")
        page = await panel.until("schedules/ended", "meine-1")
        assert "成功" in page
        assert "das Ergebnis" in await panel.get("schedules/ended/meine-1")
        await panel.post("schedules/ended/meine-1")
        assert "meine-1" not in await panel.get("schedules/ended")
        assert (await panel.post("schedules/run", name="meine-1")).status_code == 404

    with_server(tmp_path, test)


def test_a_call_is_called_off_and_never_runs(tmp_path: Path) -> None:
    async def test(panel: Page, server: Running) -> None:
        await panel.post("schedules/new", tool="Echo", when=LATER, arguments="", id="weg")
        await panel.until("schedules", "weg")
        answer = await panel.post("schedules/cancel", name="weg")
        assert answer.headers["location"].endswith("done=cancelled")
        assert server.services.schedule.waiting() == {}
        assert not (tmp_path / "VCPTimedContacts" / "weg.json").exists()
        assert (await panel.post("schedules/cancel", name="weg")).status_code == 404

    with_server(tmp_path, test)


def test_what_cannot_be_scheduled_is_told_and_what_was_typed_stays(tmp_path: Path) -> None:
    async def test(panel: Page, _server: Running) -> None:
        good = {"tool": "Echo", "when": LATER, "arguments": '{"text": "x"}', "id": "a"}
        wrong = [
            {"tool": "Nobody"},
            {"when": ""},
            {"when": "2001-01-01T00:00"},
            {"arguments": "[1]"},
            {"arguments": "{"},
        ]
        for change in (*wrong, {"id": "../a"}, {"arguments": '{"x": NaN}'}):
            answer = await panel.post("schedules/new", **(good | change))
            assert answer.status_code == 400, change
            assert 'role="alert"' in answer.text
        assert 'value="../a"' in (await panel.post("schedules/new", **(good | {"id": "../a"}))).text
        assert not list((tmp_path / "VCPTimedContacts").glob("*.json"))

    with_server(tmp_path, test)


def test_hostile_tasks_are_text_on_every_page(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        for folder in ("VCPTimedContacts", "VCPTimedContacts/failed", "VCPTimedResults"):
            (tmp_path / folder).mkdir(exist_ok=True)
        name = HOSTILE.replace("/", "_")
        task = {"taskId": HOSTILE, "scheduledLocalTime": HOSTILE, "requestor": HOSTILE, "tool_name": HOSTILE}
        for folder in ("VCPTimedContacts/failed", "VCPTimedResults"):
            content = {**task, "tool_call": {"tool_name": HOSTILE}, "failure": {"reason": HOSTILE}, "result": HOSTILE}
            (tmp_path / folder / f"{name}{len(folder)}.json").write_text(json.dumps(content))
        for page in ("schedules", "schedules/ended", f"schedules/ended/{name}15", "schedules/new"):
            answer = await panel.get(page)
            assert answer.status == 200, page
            assert is_harmless(answer), page
        wrong = await panel.post("schedules/new", tool=HOSTILE, when=HOSTILE, arguments=HOSTILE, id=HOSTILE)
        assert is_harmless(wrong)

    visit(tmp_path, test)


@pytest.mark.parametrize(("language", "said"), [("zh", "没有等待的任务"), ("en", "No task waits")])
def test_pages_without_tasks_say_so_in_both_languages(tmp_path: Path, language: str, said: str) -> None:
    async def test(panel: Visits) -> None:
        assert said in text_of(await panel.get("schedules", language))
        assert said in text_of(await panel.get("schedules/waiting", language))
        assert (await panel.get("schedules/ended", language)).status == 200

    visit(tmp_path, test)


@pytest.mark.parametrize("name", ["../config.env", "", ".running", "a/b"])
def test_names_that_are_none_are_bad_requests(tmp_path: Path, name: str) -> None:
    async def test(panel: Visits) -> None:
        for path in ("schedules/run", "schedules/cancel"):
            assert (await panel.post(path, name=name)).status == 400
        assert (tmp_path / "config.env").exists()

    visit(tmp_path, test)
