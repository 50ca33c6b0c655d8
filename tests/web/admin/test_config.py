"""``/admin_api/config``: paths and shapes of vcp-core 8.2, conflicts, refusals, copies."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.config.home_folders import make_home
from app.config.snapshot import load
from app.services import Services
from app.web.app import create_app
from tests.web.asgi import KEY, Answered, ask

LOGIN = ("authorization", "Basic " + b64encode(b"admin:secret").decode())
BASE = "API_URL=http://127.0.0.1:9\nAdminUsername=admin\nAdminPassword=secret\n"


class Server:
    """An administrator's requests; ``environ`` are the variables of the operating system."""

    def __init__(self, home: Path, environ: dict[str, str]) -> None:
        make_home(home)
        self.path = home / "config.env"
        self.path.write_text(BASE, encoding="utf-8")
        read = partial(load, home, environ)
        self.services = Services(read(), KEY, read_config=read)
        self._app = create_app(self.services)

    async def get(self, path: str, *headers: tuple[str, str]) -> Answered:
        return await ask(self._app, "GET", f"/admin_api/config{path}", *(headers or (LOGIN,)))

    async def post(self, path: str, body: Any, *headers: tuple[str, str]) -> Answered:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await ask(self._app, "POST", f"/admin_api/config{path}", LOGIN, *headers, blocks=[data])


def served(home: Path, test: Callable[[Server], Awaitable[None]], **environ: str) -> None:
    async def main() -> None:
        await test(Server(home, environ))

    asyncio.run(main())


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_both_paths_give_the_true_text_and_its_version(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        for path in ("/main", "/main/raw"):
            answer = await server.get(path)
            assert (answer.status, answer.json) == (200, {"content": BASE})
            assert answer.headers["etag"] == f'"{sha(BASE)}"'
        assert (await server.get("/main", ("accept", "*/*"))).status == 401

    served(tmp_path, test)


def test_a_missing_file_is_an_empty_text(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        server.path.unlink()
        assert (await server.get("/main")).json == {"content": ""}

    served(tmp_path, test)


def test_a_save_as_existing_panels_send_it_is_in_force_at_once(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        text = BASE + "# mine\nMaxVCPLoopStream=9\nUnknown=kept\n"
        answer = await server.post("/main", {"content": text})
        assert answer.status == 200
        assert " / " in answer.json["message"]
        assert answer.json["problems"] == []
        assert answer.headers["etag"] == f'"{sha(text)}"'
        assert server.path.read_text(encoding="utf-8") == text
        assert server.services.settings.max_vcp_loop_stream == 9

    served(tmp_path, test)


@pytest.mark.parametrize("body", [{}, {"content": 5}, {"content": None}, {"text": "A=1"}])
def test_a_content_that_is_no_text_is_refused(tmp_path: Path, body: dict[str, Any]) -> None:
    async def test(server: Server) -> None:
        answer = await server.post("/main", body)
        assert answer.status == 400
        assert "Invalid content format. String expected." in answer.json["error"]
        assert server.path.read_text(encoding="utf-8") == BASE

    served(tmp_path, test)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"content": "' + b"x" * 17_000_000 + b'"}'])
def test_bodies_that_are_no_object_or_too_large_change_nothing(tmp_path: Path, body: bytes) -> None:
    async def test(server: Server) -> None:
        assert (await server.post("/main", body)).status in (400, 413)
        assert server.path.read_text(encoding="utf-8") == BASE

    served(tmp_path, test)


def test_two_people_who_edit_the_same_file_the_second_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        read = (await server.get("/main")).headers["etag"]
        theirs = BASE + "VarA=theirs\n"
        assert (await server.post("/main", {"content": theirs, "expected": read.strip('"')})).status == 200
        for body, headers in (({"expected": sha(BASE)}, ()), ({}, (("if-match", read),))):
            answer = await server.post("/main", {"content": BASE + "VarA=mine\n", **body}, *headers)
            assert answer.status == 409
            assert answer.json["content"] == theirs
            assert answer.json["current"] == sha(theirs)
            assert answer.json["yours"] == sha(BASE + "VarA=mine\n")
        assert server.path.read_text(encoding="utf-8") == theirs

    served(tmp_path, test)


def test_problems_are_told_by_line_and_key_and_do_not_stop_the_save(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        answer = await server.post("/main", {"content": BASE + "ApiRetries=many\n"})
        assert answer.status == 200
        (problem,) = answer.json["problems"]
        assert (problem["line"], problem["key"]) == (4, "ApiRetries")
        assert "whole number" in problem["reason"]

    served(tmp_path, test)


def test_a_configuration_that_the_server_could_not_start_with_is_not_saved(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        answer = await server.post("/main", {"content": BASE + "Key=please-change-me\n"})
        assert answer.status == 422
        assert "placeholder" in answer.json["error"]
        assert server.path.read_text(encoding="utf-8") == BASE
        assert (await server.get("/backups")).json == {"backups": []}

    served(tmp_path, test, HOST="0.0.0.0")


def test_the_answer_says_what_waits_for_a_restart(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        answer = await server.post("/main", {"content": BASE + "PORT=7001\nHOST=::1\nShowVCP=true\n"})
        assert answer.json["restart"] == ["PORT"]  # HOST is set by the environment
        assert "PORT" in answer.json["message"]
        assert server.services.settings.port == 6005
        assert server.services.settings.show_vcp

    served(tmp_path, test, HOST="127.0.0.1")


def test_copies_are_listed_read_and_restored_with_a_copy_of_what_was_there(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        name = (await server.post("/main", {"content": BASE + "VarA=1\n"})).json["backup"]
        (listed,) = (await server.get("/backups")).json["backups"]
        assert listed == {"name": name, "made": listed["made"], "size": len(BASE)}
        assert listed["made"].endswith("+00:00")
        assert (await server.get(f"/backups/{name}")).json == {"content": BASE}
        answer = await server.post(f"/backups/{name}/restore", {"expected": sha("something else")})
        assert answer.status == 409
        answer = await server.post(f"/backups/{name}/restore", {"expected": sha(BASE + "VarA=1\n")})
        assert answer.status == 200
        assert server.path.read_text(encoding="utf-8") == BASE
        kept = (await server.get(f"/backups/{answer.json['backup']}")).json
        assert kept == {"content": BASE + "VarA=1\n"}

    served(tmp_path, test)


@pytest.mark.parametrize("name", ["..%2F..%2Fconfig.env", "../../config.env", "x.env", "20261130T154257.123Z.env"])
def test_nothing_but_copies_can_be_reached(tmp_path: Path, name: str) -> None:
    async def test(server: Server) -> None:
        assert (await server.get(f"/backups/{name}")).status == 404
        assert (await server.post(f"/backups/{name}/restore", {})).status == 404
        assert server.path.read_text(encoding="utf-8") == BASE

    served(tmp_path, test)


def test_a_fault_of_the_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        (tmp_path / ".vcp" / "config_backups").mkdir(parents=True)
        (tmp_path / ".vcp" / "config_backups").rmdir()
        (tmp_path / ".vcp" / "config_backups").write_text("in the way")
        answer = await server.post("/main", {"content": BASE + "VarA=1\n"})
        assert answer.status == 500
        assert "the disk refused" in answer.json["error"]
        assert server.path.read_text(encoding="utf-8") == BASE

    served(tmp_path, test)


def test_a_file_that_cannot_be_read_can_be_replaced_and_is_kept(tmp_path: Path) -> None:
    async def test(server: Server) -> None:
        server.path.write_bytes(b"A=\xff\xff\xff")
        answer = await server.get("/main")
        assert answer.status == 500
        assert "UTF-8" in answer.json["error"]
        assert (await server.post("/main", {"content": BASE})).status == 200
        assert (await server.get("/backups")).json["backups"][0]["size"] == 5

    served(tmp_path, test)
