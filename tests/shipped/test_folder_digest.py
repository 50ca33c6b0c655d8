"""FolderDigest as a process: first answer, work, callback; confined to the home (spec 5.6 asynchronous, 1.10; B3)."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "Plugin" / "FolderDigest"


@dataclass
class Desk:
    """Takes callbacks; ``statuses`` are answered in order, then 200."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)


@pytest.fixture
def desk() -> Iterator[Desk]:
    taken = Desk()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.paths.append(self.path)
            taken.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(taken.statuses.pop(0) if taken.statuses else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: the test reads the requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken.url = f"http://127.0.0.1:{server.server_address[1]}/plugin-callback/token"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield taken
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Ran:
    answer: dict[str, Any]
    code: int
    stderr: str


Digest = Callable[..., Ran]


@pytest.fixture
def digest(tmp_path: Path, desk: Desk, plugin_env: Callable[..., dict[str, str]]) -> Digest:
    def run(arguments: Any, **settings: str) -> Ran:
        environ = {
            "PROJECT_BASE_PATH": str(tmp_path / "home"),
            "CALLBACK_BASE_URL": desk.url,
            "PLUGIN_NAME_FOR_CALLBACK": "FolderDigest",
            "DEFAULT_TIMEZONE": "Asia/Shanghai",
            "http_proxy": "http://127.0.0.1:9",
        }
        done = subprocess.run(
            [sys.executable, "main.py"],
            cwd=FOLDER,
            input=arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode(),
            env=plugin_env(**{**environ, **settings}),
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Ran(json.loads(done.stdout.decode()), done.returncode, done.stderr.decode())

    return run


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with what a digest has to tell apart."""
    folder = tmp_path / "home" / "library"
    files = {
        "long.txt": "汉字" * 500,
        "short.txt": "abc",
        "a/twin.md": "same text",
        "b/twin.md": "same text",
        "b/picture.bin": b"\0\1\2" * 1000,
        "b/gbk.txt": "汉字".encode("gbk"),
        ".hidden/secret": "x",
        "config.env": "Key=secret",
        "empty": "",
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (1_767_546_000 - len(name),) * 2)
    (folder / "link.txt").symlink_to("/etc/hostname")
    (folder / "up").symlink_to(tmp_path)
    return folder


def test_the_first_answer_names_the_task_and_the_callback_brings_the_digest(
    digest: Digest, desk: Desk, library: Path
) -> None:
    ran = digest({"folder": "library", "top": "2"})
    assert (ran.code, ran.stderr) == (0, "")
    result = ran.answer["result"]
    task = result["task_id"]
    assert result["placeholder"] == "{{VCP_ASYNC_RESULT::FolderDigest::" + task + "}}"
    assert result["placeholder"] in result["message"]
    assert desk.paths == [f"/plugin-callback/token/FolderDigest/{task}"]
    (body,) = desk.bodies
    assert (body["requestId"], body["status"]) == (task, "Succeed")
    data = body["data"]
    assert (data["files"], data["folders"]) == (7, 3)
    assert data["bytes"] == 3000 + 3 + 9 + 9 + 3000 + 4
    assert data["skipped"] == {"links": 2, "hidden": 2, "unreadable": 0}
    assert data["newest"][0] == {
        "path": "empty",
        "bytes": 0,
        "modified": "2026-01-05T00:59:55+08:00",
        "sha256": hashlib.sha256(b"").hexdigest(),
    }
    assert {entry["path"] for entry in data["largest"]} == {"b/picture.bin", "long.txt"}
    assert data["longest_texts"][0] == {"path": "long.txt", "characters": 1000}
    assert [group["paths"] for group in data["duplicates"]] == [["a/twin.md", "b/twin.md"]]
    assert data["kinds"] == {".txt": 3, ".md": 2}
    for words in ("library", "7", data["sha256"], "a/twin.md = b/twin.md"):
        assert words in body["message"]
    assert "secret" not in json.dumps(body)


def test_the_digest_of_the_whole_depends_on_names_and_contents_only(digest: Digest, desk: Desk, library: Path) -> None:
    digest({"folder": "library"})
    os.utime(library / "short.txt", (1, 1))
    library.rename(library.parent / "moved")
    digest({"folder": "moved"})
    (library.parent / "moved" / "short.txt").write_text("abd")
    digest({"folder": "moved"})
    first, moved, changed = (body["data"]["sha256"] for body in desk.bodies)
    assert first == moved != changed


def test_a_folder_outside_is_refused_without_a_callback(digest: Digest, desk: Desk, library: Path) -> None:
    ran = digest({"folder": "library/up"})
    assert (ran.answer["status"], ran.code) == ("error", 1)
    assert " / " in ran.answer["error"]
    assert desk.bodies == []


OUTSIDE = ["..", "../", "../outside", "/etc", "library/up", "library/up/outside", "..\\outside", "../homely"]
NONE = ["library/link.txt", "nowhere", "library/long.txt", "library/.hidden", "a\0b", "", "   ", 5, None, "x" * 5000]


@pytest.mark.parametrize("folder", OUTSIDE + NONE)
def test_folders_outside_and_things_that_are_none_are_refused(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Any
) -> None:  # B3
    monkeypatch.syspath_prepend(str(FOLDER))
    request = importlib.import_module("folder_digest.request")
    failure = importlib.import_module("folder_digest.failure")
    for name in ("outside", "homely"):
        (tmp_path / name).mkdir()
    environ = {"PROJECT_BASE_PATH": str(tmp_path / "home")}
    assert request.read_request(b'{"folder":"library/a"}', environ).folder == library / "a"
    with pytest.raises(failure.DigestError):
        request.read_request(json.dumps({"folder": folder}).encode(), environ)


@pytest.mark.parametrize("arguments", [b"", b"{", b"[]", b"\xff", b'{"folder":"library","top":0}', b"{" * 70_000])
def test_arguments_that_cannot_be_read_are_an_error(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: bytes
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    request = importlib.import_module("folder_digest.request")
    failure = importlib.import_module("folder_digest.failure")
    with pytest.raises(failure.DigestError):
        request.read_request(arguments, {"PROJECT_BASE_PATH": str(tmp_path / "home")})


def test_a_configured_root_opens_a_folder_outside(digest: Digest, desk: Desk, library: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("x")
    assert digest({"folder": str(outside)}, FolderDigestRoots=f"relative, {outside}").code == 0
    assert desk.bodies[0]["data"]["files"] == 1
    assert digest({"folder": str(outside) + "er"}, FolderDigestRoots=str(outside)).code == 1


def test_a_server_that_fails_for_a_moment_is_asked_again(digest: Digest, desk: Desk, library: Path) -> None:
    desk.statuses = [503]
    assert digest({"folder": "library"}).code == 0
    assert len(desk.bodies) == 2


def test_a_server_that_refuses_is_not_asked_again(digest: Digest, desk: Desk, library: Path) -> None:
    desk.statuses = [401]
    ran = digest({"folder": "library"})
    assert (ran.code, len(desk.bodies)) == (1, 1)
    assert "HTTP 401" in ran.stderr


def test_a_pipe_and_a_closed_file_do_not_hold_it_up(digest: Digest, desk: Desk, library: Path) -> None:
    os.mkfifo(library / "pipe")
    assert digest({"folder": "library"}).code == 0
    assert desk.bodies[0]["data"]["skipped"]["unreadable"] == 1
