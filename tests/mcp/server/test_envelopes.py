"""Frames of messages (mcp.md MCP-4)."""

from __future__ import annotations

from typing import Any

import pytest

from app.mcp.server.envelopes import envelope_fault


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "m"},
        {"jsonrpc": "2.0", "id": "", "method": "m", "params": {}, "more": 1},
        {"jsonrpc": "2.0", "method": "notifications/x"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": ""}},
    ],
)
def test_mcp_4_sound_messages_have_no_fault(message: Any) -> None:
    assert envelope_fault(message) is None


@pytest.mark.parametrize("message", [None, 1, "x", [], {}, {"jsonrpc": 2.0}, {"jsonrpc": "2.0", "id": []}])
def test_mcp_4_other_values_have_one(message: Any) -> None:
    fault = envelope_fault(message)
    assert fault is not None and fault.id is None and fault.reason
