"""Resources: what an MCP client can read (mcp.md MCP-28), and the completion of their templates (MCP-17)."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from itertools import chain, islice
from typing import Protocol, TypeVar

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

from app.errors import NotFoundError, VcpError, both
from app.extend import OfferedResource, ResourceSource
from app.mcp.server.listing import page
from app.mcp.server.resource_kinds import (
    JSON_TYPE,
    MAX_BYTES,
    Content,
    Entry,
    ResourceKind,
    ResourceTooLargeError,
    uri_parts,
)

log = logging.getLogger(__name__)

T = TypeVar("T")


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

LIST_SECONDS = 5.0
"""How long a list waits for one plugin."""

COMPLETIONS = 100
"""Values that a completion shows (MCP-17)."""


class Resources:
    """The ``ResourceShelf`` over kinds of resources and what plugins offer.

    ``kinds`` gives those of now, which are asked in a thread; listing and reading never leave what they confine
    themselves to. ``sources`` gives those of plugins; one that fails is left out of the lists. The words before ``://``
    that are ``taken`` belong to kinds, also to those that the settings do not want.
    """

    def __init__(
        self,
        kinds: Callable[[], Sequence[ResourceKind]],
        sources: Callable[[], Sequence[ResourceSource]] = tuple,
        taken: Set[str] = frozenset(),
    ) -> None:
        self._kinds = kinds
        self._brought = sources
        self._taken = taken
        self._told: list[Callable[[str], None]] = []

    async def list(self, cursor: str | None) -> ListResourcesResult:
        """See ``ResourceShelf.list``."""
        kinds = self._kinds()
        own = await asyncio.to_thread(
            lambda: list(islice(chain.from_iterable(kind.entries() for kind in kinds), PAGE_OF_ALL + 1))
        )
        brought = await self._listed(lambda source: source.resources())
        found: list[Entry | OfferedResource] = [*brought, *own]
        entries = {entry.uri: entry for entry in found}
        if len(entries) > PAGE_OF_ALL:
            log.warning("more than %d MCP resources: the others are not listed", PAGE_OF_ALL)
        uris = sorted(list(entries)[-PAGE_OF_ALL:])
        shown, following = page(uris, cursor, lambda uri: uri)
        return ListResourcesResult(resources=[_line(entries[uri]) for uri in shown], next_cursor=following)

    async def _listed(self, ask: Callable[[ResourceSource], Awaitable[Sequence[T]]]) -> Sequence[T]:
        """What all plugins list; nobody waits long for one of them."""
        found = await asyncio.gather(*(listed(ask(source), source.scheme) for source in self._sources()))
        return list(chain.from_iterable(found))

    def _sources(self) -> Sequence[ResourceSource]:
        return [source for source in self._brought() if source.scheme not in self._taken]

    async def templates(self, cursor: str | None) -> ListResourceTemplatesResult:
        """See ``ResourceShelf.templates``."""
        templates = {
            one.uri_template: ResourceTemplate(
                uri_template=one.uri_template,
                name=whole(one.name),
                description=whole(one.description) or None,
                mime_type=one.mime_type or None,
            )
            for one in await self._listed(lambda source: source.templates())
        }
        for kind in self._kinds():
            templates[kind.template] = ResourceTemplate(
                uri_template=kind.template, name=kind.scheme, description=kind.description
            )
        shown, following = page(sorted(templates), cursor, lambda template: template)
        return ListResourceTemplatesResult(resource_templates=[templates[one] for one in shown], next_cursor=following)

    async def read(self, uri: str) -> ReadResourceResult:
        """See ``ResourceShelf.read``."""
        scheme, parts = uri_parts(uri)
        kind = next((kind for kind in self._kinds() if kind.scheme == scheme), None)
        content = await asyncio.to_thread(kind.read, parts) if kind is not None else await self._read(scheme, uri)
        if content is None:
            raise no_resource(uri)
        return ReadResourceResult(contents=[_contents(uri, content)])

    async def _read(self, scheme: str, uri: str) -> Content | None:
        """What a plugin has behind the address: that of the first that has something."""
        for source in self._sources():
            if source.scheme == scheme:
                found = await source.read(uri)
                if found is not None:
                    data = found.data.encode("utf-8", "replace") if isinstance(found.data, str) else found.data
                    if len(data) > MAX_BYTES:
                        raise ResourceTooLargeError
                    return Content(data, whole(found.mime_type), text=isinstance(found.data, str))
        return None

    async def complete(self, template: str, argument: str, value: str, given: Mapping[str, str]) -> Completion:
        """See ``ResourceShelf.complete``."""
        kind = next((kind for kind in self._kinds() if kind.template == template), None)
        if kind is None:
            scheme, _ = uri_parts(template)
            for source in self._sources():
                if source.scheme == scheme and template in {one.uri_template for one in await source.templates()}:
                    return completion(await source.complete(template, argument, value, given), value)
            raise no_resource(template)
        return completion(await asyncio.to_thread(lambda: list(kind.values(argument, given))), value)

    def changed(self, told: Callable[[str], None]) -> None:
        """See ``ResourceShelf.changed``."""
        self._told.append(told)

    def news(self, uri: str = "") -> None:
        """The content behind ``uri`` is another one, or the list is."""
        for told in self._told:
            told(uri)


async def listed(found: Awaitable[Sequence[T]], scheme: str) -> Sequence[T]:
    """What a plugin lists; nothing, and a line in the log, where it fails: the others are listed all the same."""
    try:
        async with asyncio.timeout(LIST_SECONDS):
            return await found
    except VcpError as error:
        why = error.message
    except TimeoutError:
        why = f"it takes longer than {LIST_SECONDS:g} s"
    log.warning("the MCP resources %s://… of a plugin are not listed: %s", scheme, why)
    return ()


def _line(entry: Entry | OfferedResource) -> Resource:
    return Resource(
        uri=entry.uri,
        name=whole(entry.name),
        title=whole(entry.title) or None,
        description=whole(entry.description) or None,
        mime_type=entry.mime_type or None,
    )


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
    if content.text or content.mime_type.startswith("text/") or content.mime_type == JSON_TYPE:
        try:
            text = content.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            blob = base64.b64encode(content.data).decode("ascii")
            return BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)
        return TextResourceContents(uri=uri, mime_type=content.mime_type, text=text)
    return BlobResourceContents(
        uri=uri, mime_type=content.mime_type, blob=base64.b64encode(content.data).decode("ascii")
    )
