"""All that can be called, and plugins that cannot, in one table: for the admin panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import both
from app.extend import LOCAL, SERVER_ORIGIN, ToolSpec
from app.plugins.discovery import Plugin
from app.plugins.plugin_edit import Installed
from app.plugins.statics import StaticState
from app.services.plugin_hosts import plugin_folders

if TYPE_CHECKING:
    from app.services.root import Services

NODE_ORIGIN = "node:"
SOCKET_ORIGIN = "socket:"
SOURCES = ("home", "program", "mcp", "node", "socket", "server")
STATES = ("on", "fault", "elsewhere", "off")


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One plugin of this machine, or one tool from elsewhere.

    ``source`` is one of ``SOURCES``, ``where`` names the MCP server, node or client. ``state`` is one of ``STATES``:
    in force, in force with a ``fault``, not run here, switched off.
    """

    name: str
    display: str
    kind: str
    source: str
    where: str
    state: str
    fault: str = ""
    callable: bool = False
    local: bool = False


def tool_rows(services: Services) -> tuple[ToolRow, ...]:
    """All rows by name; blocks, since plugins that are switched off are looked for on disk."""
    specs = services.router.specs()
    installed = plugin_folders(services.in_force).installed(services.found_plugins)
    faults = _faults(services)
    here = [_local(one, specs.get(one.name), faults.get(one.name, "")) for one in installed]
    names = {row.name for row in here}
    return tuple(sorted((*here, *_others(specs, names)), key=lambda row: (row.name.casefold(), row.name)))


def _faults(services: Services) -> Mapping[str, str]:
    loaded = {state.name: state.problem for state in services.in_process.states() if state.problem}
    ran = {state.plugin: state.last_error for state in services.statics.states() if state.last_error}
    return {**ran, **loaded}


def _local(one: Installed, spec: ToolSpec | None, fault: str) -> ToolRow:
    manifest, plugin = one.manifest, one.plugin
    state = "off"
    if plugin is not None:
        fault = _missing(plugin) or fault
        state = "elsewhere" if not plugin.runs_here else "fault" if fault or plugin.manifest.complaints else "on"
        fault = fault or next(iter(plugin.manifest.complaints), "")
    return ToolRow(
        one.name,
        manifest.display if manifest is not None else one.name,
        manifest.plugin_type if manifest is not None else "",
        "program" if one.of_program else "home",
        "",
        state,
        fault if one.enabled else "",
        callable=spec is not None and spec.callable and spec.origin == LOCAL,
        local=True,
    )


def _missing(plugin: Plugin) -> str:
    if not plugin.runs_here:
        return both("需要 Node 的模块，此处不运行", "a module that needs Node; not run here")
    if plugin.lacks:
        return both(f"此机器上没有 {plugin.lacks}", f"{plugin.lacks} is not on this machine")
    return ""


def _others(specs: Mapping[str, ToolSpec], names: set[str]) -> Iterator[ToolRow]:
    for name, spec in specs.items():
        if name in names:
            continue
        source, where = source_of(spec)
        yield ToolRow(name, spec.display, "", source, where, "on", callable=spec.callable)


def source_of(spec: ToolSpec) -> tuple[str, str]:
    """Where a tool comes from: one of ``SOURCES``, and the name of the server, node or client."""
    for prefix, source in ((SERVER_ORIGIN, "mcp"), (NODE_ORIGIN, "node"), (SOCKET_ORIGIN, "socket")):
        if spec.origin.startswith(prefix):
            return source, spec.origin.removeprefix(prefix)
    return "server", ""


def static_state(services: Services, name: str) -> StaticState | None:
    """How a static plugin is; None for all others."""
    return next((state for state in services.statics.states() if state.plugin == name), None)
