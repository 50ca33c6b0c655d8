"""Resources: what an MCP client can read (mcp.md MCP-28), and the completion of their templates (MCP-17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mcp_types import Completion, ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult


class ResourceShelf(Protocol):
    """What the server's door shows as resources."""

    async def list(self, cursor: str | None) -> ListResourcesResult:
        """One page, sorted by URI (MCP-15). Raises BadRequestError for a cursor that no page gave (-32602)."""
        ...

    async def templates(self, cursor: str | None) -> ListResourceTemplatesResult:
        """One page of the URI templates. Raises BadRequestError for a cursor that no page gave (-32602)."""
        ...

    async def read(self, uri: str) -> ReadResourceResult:
        """The content. Raises NotFoundError for a URI that nothing stands behind (legacy -32002, modern -32602).

        Other ``VcpError``s say what is wrong with what is there, for instance that it is too large (-32603).
        """
        ...

    async def complete(self, template: str, argument: str, value: str, given: Mapping[str, str]) -> Completion:
        """Values of the ``argument`` of this template that begin with ``value``, at most 100 (MCP-17).

        ``given`` are the arguments that the client has filled in already. Raises NotFoundError for an unknown template.
        """
        ...

    def changed(self, told: Callable[[str], None]) -> None:
        """Call ``told`` with the URI of a resource whose content may be another one, and with "" when the list is.

        It is called in the event loop, must be quick and must not raise.
        """
        ...
