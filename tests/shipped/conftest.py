"""Runs shipped plugins as the server does: a child process in the plugin's folder, JSON on stdin, JSON on stdout."""

from __future__ import annotations

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

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Answer:
    """What a plugin process left behind."""

    json: dict[str, Any]
    code: int
    stderr: str


RunPlugin = Callable[..., Answer]


def plugin_environment(**settings: str) -> dict[str, str]:
    """The environment of a child: the test's own, without settings that a developer's shell may hold."""
    dropped = {"API_URL", "API_Key", "TagModel", "TagModelPrompt", "DEFAULT_TIMEZONE", "DAILY_NOTE_EXTENSION"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped and not name.endswith("_proxy")}
    return kept | {"PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "utf-8"} | settings


@pytest.fixture(scope="session")
def plugin_env() -> Callable[..., dict[str, str]]:
    return plugin_environment


@pytest.fixture(scope="session")
def run_plugin() -> RunPlugin:
    def run(name: str, arguments: object = None, *, raw: bytes | None = None, **settings: str) -> Answer:
        stdin = raw if raw is not None else json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass")
        done = subprocess.run(
            [sys.executable, "main.py"],
            cwd=REPOSITORY / "Plugin" / name,
            input=stdin,
            env=plugin_environment(**settings),
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Answer(json.loads(done.stdout.decode("utf-8")), done.returncode, done.stderr.decode("utf-8"))

    return run


@dataclass
class TagServer:
    """A chat-completions server that gives its scripted answers in order, then the last one again."""

    url: str
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    on_request: Callable[[], None] | None = None

    def say(self, text: str | None, status: int = 200) -> None:
        """Add an answer whose message says ``text``."""
        self.answers.append((status, json.dumps({"choices": [{"message": {"content": text}}]}).encode()))

    def settings(self, **more: str) -> dict[str, str]:
        """The settings that lead a plugin here."""
        return {"API_URL": self.url, "API_Key": "tag-key", "TagModel": "tagger-1"} | more


@pytest.fixture
def tag_server() -> Iterator[TagServer]:
    script = TagServer("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.requests.append({"path": self.path, "key": self.headers["Authorization"], "body": body})
            if script.on_request is not None:
                script.on_request()
            status, answer = script.answers[min(len(script.requests), len(script.answers)) - 1]
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: the test reads the requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield script
    server.shutdown()
    thread.join()
    server.server_close()
