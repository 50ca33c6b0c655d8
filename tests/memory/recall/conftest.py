from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.recall.playing import Played


@pytest.fixture
def memory(tmp_path: Path) -> Played:
    (tmp_path / "dailynote").mkdir()
    return Played(tmp_path)
