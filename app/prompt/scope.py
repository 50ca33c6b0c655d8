"""Which expansion steps a text may use, by the role of its message (3.2 as changed by D7)."""

from __future__ import annotations

from dataclasses import dataclass

from app.prompt.limits import Budget
from app.protocol.prompt_texts import SYSTEM_USER_PREFIX

SYSTEM = "system"

EVERY_ROLE = frozenset({SYSTEM, "user", "assistant", "tool", "function"})
"""For placeholder sources that work in all messages. ``developer`` counts as ``system``."""


@dataclass(frozen=True, slots=True)
class RoleRules:
    """``system`` opens the steps for system text only: variables, dates, tools, port, image key, detectors."""

    agents: bool
    sar: bool
    system: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """What does not change while one text and everything inside it is expanded."""

    rules: RoleRules
    model: str
    budget: Budget


def folded_role(role: object) -> str:
    """The role as rules know it: ``developer`` is ``system``; what is no text is no role."""
    if role == "developer":
        return SYSTEM
    return role if isinstance(role, str) else ""


def rules_for(role: str, text: str, *, agents_in_all_roles: bool) -> RoleRules:
    """The rules for a message's text (or one text part of it); ``role`` is a folded role."""
    system = role == SYSTEM
    noted = system or is_note(role, text)
    return RoleRules(agents=noted or agents_in_all_roles, sar=noted, system=system)


def is_note(role: str, text: str) -> bool:
    """Whether a text of this folded role is a client's note in the place of a user's text (2.1, D7)."""
    return role == "user" and text.startswith(SYSTEM_USER_PREFIX)
