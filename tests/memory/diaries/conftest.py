"""What tests of diaries share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.memory.diaries.tag_server import TagServer, serving_tags


@pytest.fixture
def tag_server() -> Iterator[TagServer]:
    with serving_tags() as server:
        yield server
