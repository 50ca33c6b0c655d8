"""A chat-completions server for tests of the tagging model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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


@contextmanager
def serving_tags() -> Iterator[TagServer]:
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
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
