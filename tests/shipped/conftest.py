"""Runs shipped plugins as the server does: a child process in the plugin's folder, JSON on stdin, JSON on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.memory.diaries.tag_server import TagServer, serving_tags

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


@pytest.fixture
def tag_server() -> Iterator[TagServer]:
    with serving_tags() as server:
        yield server
