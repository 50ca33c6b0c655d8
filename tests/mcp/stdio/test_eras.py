"""Eras and HTTP headers of what is handed on (MCP-3, MCP-46)."""

from __future__ import annotations

from typing import Any

from mcp_types import JSONRPCRequest

from app.mcp.stdio.eras import Era, ModernHeaders, modern_revision
from tests.mcp.stdio.wires import MODERN, call, initialize, request


def asked(frame: dict[str, Any]) -> JSONRPCRequest:
    return JSONRPCRequest.model_validate(frame)


def test_the_headers_of_a_modern_request_repeat_its_body() -> None:
    """MCP-46: version, method, name; the URI of a resource; what is no ASCII is written in base64."""
    headers = ModernHeaders()
    plain = headers.of(asked(call(1, "echo", modern=True)))
    assert plain == {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}
    read = headers.of(asked(request(1, "resources/read", {"uri": "a://密", **MODERN})))
    assert read["mcp-name"].startswith("=?base64?")
    assert "mcp-name" not in headers.of(asked(request(1, "tools/list", MODERN)))


def test_arguments_become_headers_once_their_tool_was_listed() -> None:
    """MCP-46: properties marked ``x-mcp-header``."""
    headers = ModernHeaders()
    marked = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    frame = asked(call(1, "echo", modern=True, region="north"))
    assert not any("Region" in name for name in headers.of(frame))
    headers.listed({"tools": [{"name": "echo", "inputSchema": marked}, {"name": 5}, "odd"]})
    headers.listed({"tools": "odd"})
    assert headers.of(frame)["Mcp-Param-Region"] == "north"


def test_odd_envelopes_are_no_revision() -> None:
    for params in (None, {}, {"_meta": None}, {"_meta": []}, {"_meta": {"io.modelcontextprotocol/protocolVersion": 5}}):
        assert modern_revision(params) is None  # type: ignore[arg-type]


def test_the_first_request_decides() -> None:
    """MCP-3, MCP-10."""
    legacy, modern = Era(), Era()
    early = legacy.refused(asked(request(1, "tools/list")))
    assert early is not None
    assert early.code == -32602
    assert legacy.refused(asked(initialize())) is None
    legacy.initialized()
    assert legacy.refused(asked(request(2, "tools/list"))) is None
    other = legacy.refused(asked(call(3, "echo", modern=True)))
    assert other is not None
    assert other.code == -32600
    assert modern.refused(asked(call(1, "echo", modern=True))) is None
    late = modern.refused(asked(initialize()))
    assert late is not None
    assert (late.code, late.data["requested"]) == (-32022, "2025-11-25")
