"""Resources: what an MCP client can read (mcp.md MCP-28), and the completion of their templates (MCP-17)."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Protocol

from mcp_types import (
    BlobResourceContents,
    Completion,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from app.errors import NotFoundError, both
from app.mcp.server.listing import page
from app.mcp.server.resource_kinds import JSON_TYPE, Content, Entry, ResourceKind, uri_parts

log = logging.getLogger(__name__)


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


PAGE_OF_ALL = 10_000
"""Resources that are listed; those beyond can be read by their templates."""

COMPLETIONS = 100
"""Values that a completion shows (MCP-17)."""


class Resources:
    """The ``ResourceShelf`` over kinds of resources; ``kinds`` gives those of now, which are asked in a thread.

    Listing and reading never leave what the kinds confine themselves to.
    """

    def __init__(self, kinds: Callable[[], Sequence[ResourceKind]]) -> None:
        self._kinds = kinds
        self._told: list[Callable[[str], None]] = []

    async def list(self, cursor: str | None) -> ListResourcesResult:
        """See ``ResourceShelf.list``."""
        entries = await asyncio.to_thread(self._entries)
        shown, following = page(entries, cursor, lambda entry: entry.uri)
        return ListResourcesResult(
            resources=[
                Resource(
                    uri=entry.uri,
                    name=whole(entry.name),
                    title=whole(entry.title) or None,
                    mime_type=entry.mime_type,
                )
                for entry in shown
            ],
            next_cursor=following,
        )

    def _entries(self) -> Sequence[Entry]:
        entries = list(islice(chain.from_iterable(kind.entries() for kind in self._kinds()), PAGE_OF_ALL + 1))
        if len(entries) > PAGE_OF_ALL:
            log.warning("more than %d MCP resources: the others are not listed", PAGE_OF_ALL)
        return sorted(entries[:PAGE_OF_ALL], key=lambda entry: entry.uri)

    async def templates(self, cursor: str | None) -> ListResourceTemplatesResult:
        """See ``ResourceShelf.templates``."""
        kinds = sorted(self._kinds(), key=lambda kind: kind.template)
        shown, following = page(kinds, cursor, lambda kind: kind.template)
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(uri_template=kind.template, name=kind.scheme, description=kind.description)
                for kind in shown
            ],
            next_cursor=following,
        )

    async def read(self, uri: str) -> ReadResourceResult:
        """See ``ResourceShelf.read``."""
        scheme, parts = uri_parts(uri)
        kind = next((kind for kind in self._kinds() if kind.scheme == scheme), None)
        if kind is None:
            raise no_resource(uri)
        content = await asyncio.to_thread(kind.read, parts)
        if content is None:
            raise no_resource(uri)
        return ReadResourceResult(contents=[_contents(uri, content)])

    async def complete(self, template: str, argument: str, value: str, given: Mapping[str, str]) -> Completion:
        """See ``ResourceShelf.complete``."""
        kind = next((kind for kind in self._kinds() if kind.template == template), None)
        if kind is None:
            raise no_resource(template)
        return completion(await asyncio.to_thread(lambda: list(kind.values(argument, given))), value)

    def changed(self, told: Callable[[str], None]) -> None:
        """See ``ResourceShelf.changed``."""
        self._told.append(told)

    def news(self, uri: str = "") -> None:
        """The content behind ``uri`` is another one, or the list is."""
        for told in self._told:
            told(uri)


def whole(text: str) -> str:
    """The text without halves of characters, which no message can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def completion(values: Iterable[str], begun: str) -> Completion:
    """The values that begin with ``begun``, in any case of letters, sorted, at most ``COMPLETIONS`` of them."""
    fitting = sorted({whole(value) for value in values if value.lower().startswith(begun.lower())})
    return Completion(values=fitting[:COMPLETIONS], total=len(fitting), has_more=len(fitting) > COMPLETIONS)


def no_resource(uri: str) -> NotFoundError:
    """Nothing stands behind this address."""
    return NotFoundError(both(f"没有资源 {uri[:200]}", f"there is no resource {uri[:200]}"))


def _contents(uri: str, content: Content) -> TextResourceContents | BlobResourceContents:
    """Text where it is text by its type and its bytes, otherwise base64 (MCP-28)."""
    if content.mime_type.startswith("text/") or content.mime_type == JSON_TYPE:
        try:
            text = content.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            blob = base64.b64encode(content.data).decode("ascii")
            return BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)
        return TextResourceContents(uri=uri, mime_type=content.mime_type, text=text)
    return BlobResourceContents(
        uri=uri, mime_type=content.mime_type, blob=base64.b64encode(content.data).decode("ascii")
    )
