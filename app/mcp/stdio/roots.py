"""Where the tools of a stand-alone server may work: one folder, and nothing outside of it (mcp.md STD-8 … STD-14).

What a tool declares as ``root`` is the folder that it works in; what it declares as ``src`` is read from the disk, as
imports do.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import CallToolResult, TextContent

from app.errors import both
from app.extend import Json
from app.protocol.markers import MCP_ERROR_PREFIX

ROOT, SOURCE = "root", "src"
EXTERNAL_SWITCH = "--allow-external-src"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Root:
    """The folder of a server. ``real`` is its path without links; with ``external_sources`` imports may read anywhere.

    What is inside is decided by real paths, so ``..`` and links lead nowhere (STD-13, STD-14).
    """

    real: Path
    external_sources: bool = False

    def inside(self, written: str, base: Path | None = None) -> Path | None:
        """The real path of what was written, relative to ``base``, the root itself by default; None outside. Blocks."""
        try:
            path = Path(os.path.realpath((base or self.real) / written))
            if path == self.real or self.real in path.parents or self._same_above(path):
                return path
        except (OSError, ValueError):  # a NUL, or a name that no file can have
            return None
        return None

    def _same_above(self, path: Path) -> bool:
        """Whether the root is above the path under another spelling, where capitals do not count."""
        return any(folder.is_dir() and folder.samefile(self.real) for folder in (path, *path.parents))

    def confined(self, arguments: Mapping[str, Json], declared: Mapping[str, Json]) -> dict[str, Json] | None:
        """The arguments with a root that is allowed, None when a source is outside. Blocks.

        ``declared`` are the properties of the tool's schema. An argument of the wrong type stays as it is: it will be
        refused as such.
        """
        given = dict(arguments)
        if ROOT in declared:
            given[ROOT] = self._root(given.get(ROOT))
        written = given.get(SOURCE)
        if SOURCE in declared and isinstance(written, str) and written and not self.external_sources:
            base = given.get(ROOT)
            if self.inside(written, Path(base) if isinstance(base, str) else None) is None:
                return None
        return given

    def _root(self, written: Json) -> Json:
        if written is None or written == "":
            return str(self.real)
        if not isinstance(written, str):
            return written
        path = self.inside(written)
        if path is None:
            log.warning("an argument root outside of the server's root was refused; the server's root is used")
            return str(self.real)
        return str(path)


class Confinement:
    """Middleware of the SDK's server: looks at the arguments of each call before the tool's schema does."""

    def __init__(self, root: Root, schema: Callable[[str], Mapping[str, Any] | None]) -> None:
        self._root = root
        self._schema = schema

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        params = ctx.params
        if ctx.method != "tools/call" or not params or not isinstance(name := params.get("name"), str):
            return await call_next(ctx)
        declared = (self._schema(name) or {}).get("properties")
        arguments = params.get("arguments")
        if not isinstance(declared, Mapping) or not isinstance(arguments, Mapping | None):
            return await call_next(ctx)
        given = await asyncio.to_thread(self._root.confined, arguments or {}, declared)
        if given is None:
            return _refused()
        return await call_next(replace(ctx, params={**params, "arguments": given}))


def _refused() -> CallToolResult:
    text = both(
        f"src 在服务器的 root 之外；如需允许，请用 {EXTERNAL_SWITCH} 启动",
        f"src is outside of the server's root; start it with {EXTERNAL_SWITCH} to allow that",
    )
    return CallToolResult(content=[TextContent(type="text", text=MCP_ERROR_PREFIX + text)], is_error=True)
