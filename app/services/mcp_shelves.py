"""What MCP clients may read here beside tools: resources and prompts, as the settings of now allow."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from app.config.settings import Settings
from app.config.snapshot import Config
from app.extend import BackgroundResult, Event, NotesChanged, NotesIndexed, Reloaded, ShelfChanged
from app.plugins.discovery import Plugin

if TYPE_CHECKING:  # at run time only functions import these, and the root imports what imports this
    from app.mcp.server.prompts import PromptShelf
    from app.mcp.server.resource_kinds import Described, ResourceKind
    from app.mcp.server.resources import ResourceShelf
    from app.services.root import Services

log = logging.getLogger(__name__)


class NamedShelves(TypedDict):
    """The shelves as arguments of ``mcp_door``."""

    resources: ResourceShelf | None
    prompts: PromptShelf | None


@dataclass(frozen=True, slots=True)
class Shelves:
    """What there is beside tools."""

    resources: ResourceShelf | None = None
    prompts: PromptShelf | None = None

    def named(self) -> NamedShelves:
        """Both by name."""
        return {"resources": self.resources, "prompts": self.prompts}


NO_SHELVES = Shelves()


def give_shelves(services: Services) -> None:
    """Let the MCP server of these services have resources and prompts; to be called before somebody asks for it."""
    services.mcp.shelves = lambda: _shelves(services)


def _shelves(services: Services) -> Shelves:
    from app.mcp.server.file_resources import ProjectFiles
    from app.mcp.server.prompts import Prompts
    from app.mcp.server.resource_kinds import Agents, BackgroundTaskResults, Diaries, PluginReadmes, uri_of
    from app.mcp.server.resources import Resources

    agents = services.prompt_files.agents
    kinds: Mapping[str, ResourceKind] = {
        "diaries": Diaries(services.config.notebooks),
        "agents": Agents(agents),
        "results": BackgroundTaskResults(
            services.background_results, lambda: {plugin.name for plugin in services.found_plugins.plugins}
        ),
        "plugins": PluginReadmes(lambda: described(services.found_plugins.plugins)),
        "files": ProjectFiles(lambda: files_root(services.config)),
    }
    resources = Resources(
        services.in_force.following(lambda settings: wanted_kinds(kinds, settings)),
        services.in_process.resources,
        frozenset(kind.scheme for kind in kinds.values()),
    )

    async def expanded(text: str) -> str:
        return await services.turn_parts.preparation.expanded_text(text)

    prompts = Prompts(agents, lambda: services.settings.mcp_prompts, expanded, services.in_process.prompts)

    def heard(event: Event) -> None:
        if isinstance(event, Reloaded):
            resources.news()
            prompts.news()
        elif isinstance(event, ShelfChanged):
            resources.news(event.uri)
            if not event.uri:
                prompts.news()
        elif isinstance(event, BackgroundResult) and "results" in services.settings.mcp_resources:
            resources.news(uri_of(BackgroundTaskResults.scheme, event.plugin, event.task_id))
            resources.news()
        elif isinstance(event, NotesChanged | NotesIndexed) and "diaries" in services.settings.mcp_resources:
            for path in event.paths:
                if (uri := _diary_uri(path)) is not None:
                    resources.news(uri)
            if isinstance(event, NotesChanged) or event.listed:
                resources.news()

    services.events.listen(heard, Reloaded, ShelfChanged, BackgroundResult, NotesChanged, NotesIndexed)
    return Shelves(resources, prompts)


def _diary_uri(path: str) -> str | None:
    """The address of a note; those in deeper folders have none."""
    from app.mcp.server.resource_kinds import Diaries, uri_of

    parts = path.split("/")
    return uri_of(Diaries.scheme, *parts) if len(parts) == 2 else None


def wanted_kinds(kinds: Mapping[str, ResourceKind], settings: Settings) -> Sequence[ResourceKind]:
    """Those that ``MCPResources`` names; words that it does not know are logged."""
    unknown = sorted(set(settings.mcp_resources) - kinds.keys())
    if unknown:
        log.warning("MCPResources: there is no %s; known are %s", ", ".join(unknown), ", ".join(kinds))
    wanted = set(settings.mcp_resources)
    if "files" in wanted and not settings.mcp_files_root:
        log.warning("MCPResources=files shows nothing while MCPFilesRoot names no folder")
        wanted.remove("files")
    return tuple(kind for word, kind in kinds.items() if word in wanted)


def files_root(config: Config) -> Path | None:
    """The folder whose files MCP clients may read; None without ``MCPFilesRoot``."""
    named = config.settings.mcp_files_root
    return config.home.absolute() / named if named else None


def described(plugins: Iterable[Plugin]) -> Iterable[Described]:
    """The plugins, with what their manifests say of them as text."""
    from app.mcp.server.resource_kinds import Described

    for plugin in plugins:
        manifest = plugin.manifest
        commands = [
            f"## {command.tool_name or command.id or command.command}\n\n{command.description}"
            for command in manifest.commands
        ]
        text = "\n\n".join([f"# {manifest.display or manifest.name}", manifest.description, *commands])
        yield Described(manifest.name, manifest.display, plugin.folder, text.strip() + "\n")
