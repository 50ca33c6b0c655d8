"""The HTTP client of the chat path can be exchanged in one place."""

from __future__ import annotations

import re
from pathlib import Path

APP = Path(__file__).parents[2] / "app"


def test_aiohttp_is_imported_by_one_module() -> None:
    importing = re.compile(r"^\s*(?:import|from) aiohttp\b", re.MULTILINE)
    found = {
        path.relative_to(APP).as_posix() for path in APP.rglob("*.py") if importing.search(path.read_text("utf-8"))
    }
    assert found == {"upstream/wire.py"}
