"""The system for administrators (vcp-core 8.2): shapes of old panels, and what newer ones ask for (8.4; D87)."""

from __future__ import annotations

import asyncio
import os
import random
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.services import Services
from app.tools.auth_code import write_auth_code
from app.web.app import create_app
from tests.web.asgi import Answered, ask, services_in

LOGIN = ("authorization", "Basic " + b64encode(b"admin:secret").decode())
LOG = "ServerLog-20251130_120000_000.txt"


class Panel:
    def __init__(self, home: Path, *config: str) -> None:
        self.services: Services = services_in(home, "AdminUsername=admin", "AdminPassword=secret", *config)
        self.app = create_app(self.services)

    async def ask(self, method: str, path: str, query: str = "", *, login: bool = True) -> Answered:
        async def with_query(scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "query_string": query.encode()}, receive, send)

        return await ask(with_query, method, f"/admin_api{path}", *((LOGIN,) if login else ()))

    async def get(self, path: str, query: str = "") -> Answered:
        return await self.ask("GET", path, query)


def panel(home: Path, test: Callable[[Panel], Awaitable[None]], *config: str) -> None:
    async def main() -> None:
        await test(Panel(home, *config))

    asyncio.run(main())


def log(home: Path, text: str, name: str = LOG, age: int = 0) -> Path:
    path = home / "DebugLog" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    os.utime(path, (1_764_000_000 - age,) * 2)
    return path


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/system-monitor/pm2/processes"),
        ("GET", "/system-monitor/system/resources"),
        ("GET", "/user-auth-code"),
        ("GET", "/server-log"),
        ("GET", "/server-log/files"),
        ("POST", "/server-log/clear"),
        ("POST", "/server/restart"),
        ("GET", "/panel/history"),
    ],
)
def test_nobody_but_an_administrator_comes_in(tmp_path: Path, method: str, path: str) -> None:
    """P72."""

    async def test(web: Panel) -> None:
        assert (await web.ask(method, path, login=False)).status == 401

    panel(tmp_path, test)


def test_processes_have_the_shape_of_a_process_manager(tmp_path: Path) -> None:
    async def test(web: Panel) -> None:
        answer = await web.get("/system-monitor/pm2/processes")
        assert answer.json["success"] is True
        own = answer.json["processes"][0]
        assert own.keys() == {"name", "pid", "status", "cpu", "memory", "uptime", "restarts"}
        assert (own["name"], own["pid"], own["status"]) == ("vcp-server", os.getpid(), "online")
        assert own["memory"] > 1_000_000

    panel(tmp_path, test)


def test_resources_have_the_names_that_panels_read(tmp_path: Path) -> None:
    async def test(web: Panel) -> None:
        system = (await web.get("/system-monitor/system/resources")).json["system"]
        assert system["memory"].keys() == {"total", "used", "free"}
        assert 0 <= system["cpu"]["usage"] <= 100
        own = system["nodeProcess"]
        assert own.keys() == {"pid", "memory", "uptime", "version", "platform", "arch"}
        assert own["memory"].keys() == {"rss", "heapTotal", "heapUsed", "external", "arrayBuffers"}
        assert own["pid"] == os.getpid()

    panel(tmp_path, test)


def test_the_hourly_code_is_told_or_why_there_is_none(tmp_path: Path) -> None:
    async def test(web: Panel) -> None:
        answer = await web.get("/user-auth-code")
        assert (answer.status, answer.json["success"]) == (500, False)
        assert {"error", "details"} <= answer.json.keys()
        write_auth_code(tmp_path, random.Random(4))
        answer = await web.get("/user-auth-code")
        assert answer.json == {"success": True, "code": web.services.auth_code()}
        assert answer.headers.get("cache-control", "no-store") == "no-store"

    panel(tmp_path, test)


def test_the_log_is_told_whole_or_by_offset_or_backwards(tmp_path: Path) -> None:
    async def test(web: Panel) -> None:
        path = log(tmp_path, "one\ntwo\n")
        whole = (await web.get("/server-log")).json
        assert (whole["content"], whole["path"], whole["offset"]) == ("one\ntwo\n", str(path), 8)
        with path.open("a") as file:
            file.write("three\nfo")
        more = (await web.get("/server-log", "offset=8")).json
        assert (more["content"], more["offset"], more["needFullReload"]) == ("three\n", 14, False)
        assert (await web.get("/server-log", "before=8")).json["content"] == "one\ntwo\n"
        path.write_text("new\n")
        anew = (await web.get("/server-log", "offset=14")).json
        assert (anew["content"], anew["needFullReload"]) == ("new\n", True)

    panel(tmp_path, test)


def test_older_files_are_listed_and_read_by_name_and_nothing_else_is(tmp_path: Path) -> None:
    async def test(web: Panel) -> None:
        old = "ServerLog-20251129_120000_000.txt"
        log(tmp_path, "new\n")
        log(tmp_path, "old\n", old, age=99)
        files = (await web.get("/server-log/files")).json["files"]
        assert [file["name"] for file in files] == [LOG, old]
        assert (await web.get("/server-log", f"file={old}")).json["content"] == "old\n"
        for name in ("..%2Fconfig.env", "..%2f..%2fetc%2fpasswd", "%2Fetc%2Fpasswd", "config.env", f"{old}%00"):
            answer = await web.get("/server-log", f"file={name}")
            assert (answer.status, "secret" in answer.body.decode()) == (404, False)

    panel(tmp_path, test)


@pytest.mark.parametrize("query", ["offset=-1", "offset=x", "before=1e9", "offset=" + "9" * 30, "offset=１"])
def test_an_offset_that_is_none_is_refused(tmp_path: Path, query: str) -> None:
    async def test(web: Panel) -> None:
        log(tmp_path, "one\n")
        assert (await web.get("/server-log", query)).status == 400

    panel(tmp_path, test)


def test_without_a_log_the_answer_says_so_in_the_field_that_panels_show(tmp_path: Path) -> None:
    async def missing(web: Panel) -> None:
        answer = await web.get("/server-log")
        assert (answer.status, bool(answer.json["content"])) == (404, True)
        assert (await web.ask("POST", "/server-log/clear")).status == 404

    async def switched_off(web: Panel) -> None:
        answer = await web.get("/server-log")
        assert (answer.status, "ServerLog=false" in answer.json["content"]) == (503, True)

    panel(tmp_path, missing)
    panel(tmp_path, switched_off, "ServerLog=false")


def test_clearing_empties_the_newest_file_alone(tmp_path: Path) -> None:
    async def test(web: Panel) -> None:
        path = log(tmp_path, "one\n")
        old = log(tmp_path, "old\n", "ServerLog-20251129_120000_000.txt", age=99)
        assert (await web.ask("POST", "/server-log/clear")).json["success"] is True
        assert (path.read_text(), old.read_text()) == ("", "old\n")

    panel(tmp_path, test)


def test_a_server_that_nobody_starts_again_does_not_end(tmp_path: Path) -> None:
    async def test(web: Panel) -> None:
        answer = await web.ask("POST", "/server/restart")
        assert (answer.status, "vcp serve" in answer.json["error"]) == (503, True)
        begun: list[bool] = []
        web.services.overview.restart.on_asked(lambda: begun.append(True))
        answers = [(await web.ask("POST", "/server/restart")).json for _ in range(2)]
        assert [answer["already"] for answer in answers] == [False, True]
        assert begun == [True]

    panel(tmp_path, test)


def test_history_has_equally_many_times_and_points(tmp_path: Path) -> None:
    async def test(web: Panel) -> None:
        web.services.overview.history.sample(1, 2, 3)
        for name in ("hour", "day", "week"):
            told = (await web.get("/panel/history", f"range={name}")).json
            assert {len(points) for points in told["series"].values()} == {len(told["times"])}
            assert len(told["times"]) <= 400
        assert (await web.get("/panel/history", "range=year")).status == 400

    panel(tmp_path, test)
