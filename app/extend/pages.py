"""Pages of the admin panel: what a part, or a plugin inside the server, adds to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class PageGroup(StrEnum):
    """The groups of the panel's navigation, in their order."""

    OVERVIEW = "overview"
    CHAT = "chat"
    PROMPTS = "prompts"
    TOOLS = "tools"
    MEMORY = "memory"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class PanelPage:
    """An entry of the navigation.

    ``path`` stands below ``/AdminPanel/`` and is empty for the dashboard; ``order`` sorts inside the group. The search
    of the panel finds a page by its two names and by ``words``.
    """

    path: str
    group: PageGroup
    chinese: str
    english: str
    order: int = 100
    words: str = ""

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"/AdminPanel/{self.path}"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """Something that the panel's search has found: what it is in both languages, and the address of its page."""

    chinese: str
    english: str
    address: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PageVisit:
    """Somebody opens or sends a page of a plugin: ``language`` is ``zh`` or ``en``, ``form`` is empty for a GET."""

    language: str
    method: str
    query: Mapping[str, str]
    form: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PluginPage:
    """A page that a plugin inside the server adds to the panel, at ``/AdminPanel/plugin-pages/<plugin>/<path>``.

    ``content`` gives the HTML between the frame's top and bottom, in the person's language. It is the plugin's own
    text: what comes from a model, a file or a client has to be escaped in it. The panel's rules hold: no script or
    style inside the HTML; a plugin serves such files by routes of its own, with ``Access.ADMIN``.
    """

    page: PanelPage
    content: Callable[[PageVisit], Awaitable[str]]
