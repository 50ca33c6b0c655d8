"""Which family of revisions a connection speaks, for those that are handed on and not served here (mcp.md MCP-3)."""

from __future__ import annotations

from collections.abc import Mapping

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
    JSONRPCRequest,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from app.errors import both
from app.extend import Json

LEGACY, MODERN = "legacy", "modern"
INITIALIZE, PING = "initialize", "ping"

MAX_TOOLS = 10_000
"""Tools whose headers are remembered."""


def modern_revision(params: Mapping[str, Json] | None) -> str | None:
    """The revision that a request of the modern era names; None for all others."""
    meta = (params or {}).get("_meta")
    revision = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, Mapping) else None
    return revision if isinstance(revision, str) else None


class Era:
    """Fixed by the first request of a connection; afterwards the other family is refused."""

    def __init__(self) -> None:
        self._fixed = ""
        self._initialized = False

    @property
    def modern(self) -> bool:
        """True once the client has spoken a modern revision first."""
        return self._fixed == MODERN

    def initialized(self) -> None:
        """The handshake of the legacy era is done."""
        self._initialized = True

    def refused(self, request: JSONRPCRequest) -> ErrorData | None:
        """The error for a request that does not fit the connection, None when it does; the first one decides."""
        enveloped = request.method != INITIALIZE and modern_revision(request.params) is not None
        if not self._fixed:
            self._fixed = MODERN if enveloped else LEGACY
        if self.modern:
            return _no_handshake(request) if request.method == INITIALIZE else None
        if enveloped:
            text = both("此连接使用带 initialize 的协议版本", "this connection speaks a revision with initialize")
            return ErrorData(code=INVALID_REQUEST, message=text)
        if not self._initialized and request.method not in (INITIALIZE, PING):
            text = both("应先发送 initialize", "initialize comes first")
            return ErrorData(code=INVALID_PARAMS, message=text)
        return None


def _no_handshake(request: JSONRPCRequest) -> ErrorData:
    data: dict[str, Json] = {"supported": list(MODERN_PROTOCOL_VERSIONS)}
    if isinstance(requested := (request.params or {}).get("protocolVersion"), str):
        data["requested"] = requested
    text = both("此连接使用不带 initialize 的协议版本", "this connection speaks a revision without initialize")
    return ErrorData(code=UNSUPPORTED_PROTOCOL_VERSION, message=text, data=data)


class ModernHeaders:
    """The HTTP headers of modern requests (MCP-46), those of arguments as the last list of tools has them."""

    def __init__(self) -> None:
        self._arguments: dict[str, Mapping[tuple[str, ...], str]] = {}

    def listed(self, result: Mapping[str, Json]) -> None:
        """Look at a result of ``tools/list``."""
        tools = result.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            name, schema = (tool.get("name"), tool.get("inputSchema")) if isinstance(tool, dict) else (None, None)
            if isinstance(name, str) and len(self._arguments) < MAX_TOOLS and (found := x_mcp_header_map(schema)):
                self._arguments[name] = found

    def of(self, request: JSONRPCRequest) -> dict[str, str]:
        """The headers of one request."""
        params = request.params or {}
        headers = {MCP_METHOD_HEADER: request.method}
        if (revision := modern_revision(params)) is not None:
            headers[MCP_PROTOCOL_VERSION_HEADER] = revision
        name = params.get(NAME_BEARING_METHODS.get(request.method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            arguments = params.get("arguments")
            if request.method == "tools/call" and name in self._arguments and isinstance(arguments, dict):
                headers.update(mcp_param_headers(self._arguments[name], arguments))
        return headers
