"""Nodes of these tests are acknowledged only where a test wants it, however slow the machine is."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_early_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hub.nodes.nodes.ACKNOWLEDGE_SECONDS", 60.0)
