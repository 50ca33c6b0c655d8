"""What plugins may offer to MCP clients beside tools: resources and prompts (mcp.md MCP-28, MCP-29)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.extend.tools import CallContext
from app.extend.values import Json


@dataclass(frozen=True, slots=True)
class OfferedResource:
    """One line of the list of resources; ``uri`` begins with the ``scheme`` of its source."""

    uri: str
    name: str
    mime_type: str = "text/plain"
    title: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class OfferedTemplate:
    """Addresses of many resources, with variables in braces, such as ``orders://{id}/invoice`` (RFC 6570)."""

    uri_template: str
    name: str
    description: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class ResourceContent:
    """What is behind an address. A text is shown as text, bytes as base64."""

    data: str | bytes
    mime_type: str = "text/plain"


class ResourceSource(Protocol):
    """Resources whose addresses begin with one word, ``scheme``. The methods may be plain or async.

    Several sources may share a scheme: they are asked in turn until one has the address. ``templates`` and
    ``complete`` may be missing. The words of the server's own resources are not for plugins.
    """

    scheme: str

    async def resources(self) -> Sequence[OfferedResource]:
        """Those that are listed; what templates stand for needs no line of its own."""
        ...

    async def read(self, uri: str) -> ResourceContent | None:
        """The content, None for an address that nothing stands behind. A ``VcpError`` is told to the client."""
        ...

    async def templates(self) -> Sequence[OfferedTemplate]:
        """The families of addresses that ``read`` knows."""
        ...

    async def complete(self, template: str, argument: str, value: str, given: Mapping[str, str]) -> Sequence[str]:
        """Values that a variable of a template may have; ``value`` is what is typed so far, the others are ``given``.

        Those that do not begin with ``value`` are left out afterwards.
        """
        ...


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One thing that a prompt wants to know; its value is a text."""

    name: str
    description: str = ""
    required: bool = False


class PromptSource(Protocol):
    """One prompt. The methods may be plain or async; ``title``, ``arguments`` and ``complete`` may be missing.

    Agents win against a prompt of the same name, and so does the plugin that comes first in the alphabet.
    """

    name: str
    title: str
    description: str
    arguments: Sequence[PromptArgument]

    async def get(self, arguments: Mapping[str, str], context: CallContext) -> str | Sequence[Mapping[str, Json]]:
        """The prompt: messages as the protocol has them (``role``, ``content``), or the text of a single one.

        ``arguments`` has all required ones and no unknown ones. ``context.caller`` is the client, which may be asked
        meanwhile as by a tool. A ``VcpError`` is told to it.
        """
        ...

    async def complete(self, argument: str, value: str, given: Mapping[str, str]) -> Sequence[str]:
        """Values that an argument may have, see ``ResourceSource.complete``."""
        ...
