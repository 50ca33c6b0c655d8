"""The client behind a tool call, where it can be asked and told things while the call runs (mcp.md MCP-30, MCP-62)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from app.extend.values import Json


class Question(StrEnum):
    """What a client can be asked; the values are the methods of the Model Context Protocol."""

    ELICIT = "elicitation/create"  # a form, or a page to visit, for the person at the client
    SAMPLE = "sampling/createMessage"  # a word of the client's model
    ROOTS = "roots/list"  # the folders that it works in


class Caller(Protocol):
    """A client that called a tool and waits for its result.

    A tool may ask it while it runs. Params and answers are those of the protocol's newest revision, as JSON; the door
    writes them for the revision that its client speaks.
    """

    def can(self, question: Question, params: Mapping[str, Json]) -> bool:
        """True when the client said that it answers such a question (``mode: "url"`` and tools are extra abilities)."""
        ...

    async def ask(self, question: Question, params: Mapping[str, Json], *, key: str = "") -> Mapping[str, Json]:
        """The client's answer. Raises ``VcpError`` when it cannot be asked, refuses with an error, or is gone.

        Questions that are asked together reach the client together. A client without a session sees the question
        under ``key``, and may have sent the answer to it with the call; without a key it cannot (MCP-30).
        """
        ...

    def log(self, level: str, data: Json, logger: str = "") -> None:
        """Tell it something, at one of the eight levels of RFC 5424; returns at once."""
        ...
