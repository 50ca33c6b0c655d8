from __future__ import annotations

from pathlib import Path

import pytest

from tests.prompt.installation import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty installation."""
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)
