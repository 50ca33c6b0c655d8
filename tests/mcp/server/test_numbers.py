"""The limits of the rules, as they are where nobody sets others."""

from __future__ import annotations

import inspect
from pathlib import Path

from app.config.snapshot import load
from app.mcp.server import calls, http_sessions, listeners, listing, progress
from app.mcp.server.door import McpDoor, McpDoorRules
from app.mcp.stdio import batches, connection, descriptors

MIB = 1024 * 1024


def test_the_numbers_of_the_protocol_s_rules_are_the_defaults(tmp_path: Path) -> None:
    """MCP-12, MCP-15, MCP-16, MCP-27, MCP-40, MCP-41."""
    settings = load(tmp_path, {}).settings
    assert (settings.mcp_max_running, settings.mcp_max_running_per_client) == (64, 16)
    assert (McpDoorRules().max_running, McpDoorRules().max_running_per_client) == (64, 16)
    assert (settings.mcp_max_sessions, settings.mcp_session_seconds) == (10_000, 30 * 60)
    assert settings.mcp_body_limit_mb == 4
    assert listing.PAGE_SIZE == 200
    assert progress.PROGRESS_A_SECOND == 10
    assert inspect.signature(McpDoor).parameters["debounce_seconds"].default == listeners.DEBOUNCE_SECONDS == 0.25
    assert calls.END_SECONDS < 60 and http_sessions.STOP_SECONDS < 60


def test_the_numbers_of_the_stdio_front_are_the_defaults() -> None:
    """STD-16, STD-28, STD-29, STD-40."""
    limits = connection.Limits()
    assert limits.line_bytes == connection.MAX_LINE_BYTES == 4 * MIB
    assert limits.frame_bytes == batches.MAX_FRAME_BYTES == 8 * MIB
    assert (limits.drain_seconds, limits.flush_seconds, descriptors.STUCK_SECONDS) == (5, 1, 30)
