"""Questions that only a person may answer: forms and pages of MCP servers (decision D75)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.extend.tools import CallContext
from app.extend.values import Json


class AnswerAction(StrEnum):
    """What a person did with a question; the values are those of the Model Context Protocol."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"  # nobody was there, or nobody answered in time


@dataclass(frozen=True, slots=True)
class PersonQuestion:
    """What the server called ``asker`` wants to know of a person, in its own words: data, never trusted.

    ``schema`` describes a form: a JSON Schema object whose properties are flat. ``url`` is a page to visit instead of
    one. ``tool`` is the call that waits for it (empty: none does), ``context`` where that call came in.
    """

    asker: str
    message: str
    context: CallContext
    schema: Mapping[str, Json] | None = None
    url: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """``content`` has the fields of the form, checked, with defaults; it is there for accepted forms only."""

    action: AnswerAction
    content: Mapping[str, Json] | None = None


class People(Protocol):
    """Whoever can ask a person."""

    async def ask(self, question: PersonQuestion, seconds: float) -> PersonAnswer:
        """A person's answer within ``seconds``, or ``AnswerAction.CANCEL``; never raises but when it is cancelled."""
        ...
