"""Pages of the admin panel: what a part, or a plugin inside the server, adds to it."""

from __future__ import annotations

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
