"""Resources and prompts of in-process plugins: checked when the plugin is loaded, run within its limits.

What a source gives is checked before anybody else sees it; what it raises is one line in the log and an error for the
client that asked, never more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from app.errors import VcpError, both
from app.extend import (
    CallContext,
    Json,
    OfferedResource,
    OfferedTemplate,
    PromptArgument,
    PromptSource,
    ResourceContent,
    ResourceSource,
)
from app.plugins.in_process_context import standing_in
from app.plugins.in_process_modules import PluginCodeError

SOURCES_LIMIT = 100
"""Most resource sources, and most prompts, of one plugin."""
LISTED_LIMIT = 10_000
"""Most resources, templates or completions that a source gives at a time."""
ARGUMENTS_LIMIT = 100
"""Most arguments of a prompt."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,63}")

T = TypeVar("T")


class Owner(Protocol):
    """The plugin that a source belongs to."""

    async def run_source(self, method: Callable[..., Any], *arguments: Any, what: str) -> Any:
        """Run a method of a source within the plugin's limits; raises VcpError for whatever goes wrong."""
        ...


def checked_resources(owner: Owner, declared: object) -> tuple[ResourceSource, ...]:
    """What ``resources()`` returned, in the plugin's name; raises PluginCodeError when one cannot be served."""
    return tuple(OwnedResources(owner, source) for source in _listed(declared, "resources"))


def checked_prompts(owner: Owner, declared: object) -> tuple[PromptSource, ...]:
    """What ``prompts()`` returned, in the plugin's name; raises PluginCodeError when one cannot be served."""
    return tuple(OwnedPrompt(owner, source) for source in _listed(declared, "prompts"))


class OwnedResources:
    """A plugin's ``ResourceSource``: its scheme as it was when it was loaded, its answers checked."""

    def __init__(self, owner: Owner, source: Any) -> None:
        self._owner = owner
        self._source = source
        scheme = getattr(source, "scheme", None)
        if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
            raise _incomplete("scheme")
        _needs(source, "resources", "read")
        self.scheme = scheme

    async def resources(self) -> Sequence[OfferedResource]:
        found = _all(await self._owner.run_source(self._source.resources, what="resources"), OfferedResource)
        self._check(one.uri for one in found)
        return found

    async def templates(self) -> Sequence[OfferedTemplate]:
        if not callable(getattr(self._source, "templates", None)):
            return ()
        found = _all(await self._owner.run_source(self._source.templates, what="templates"), OfferedTemplate)
        self._check(one.uri_template for one in found)
        return found

    def _check(self, addresses: Iterable[str]) -> None:
        begin = f"{self.scheme}://"
        for address in addresses:
            if not address.startswith(begin):
                raise _odd(f"{address[:200]!r} does not begin with {begin}")

    async def read(self, uri: str) -> ResourceContent | None:
        content = await self._owner.run_source(self._source.read, uri, what="read")
        if content is not None and not isinstance(content, ResourceContent):
            raise _odd(f"read() returned {type(content).__name__}, not a ResourceContent")
        return content

    async def complete(self, template: str, argument: str, value: str, given: Mapping[str, str]) -> Sequence[str]:
        if not callable(getattr(self._source, "complete", None)):
            return ()
        found = await self._owner.run_source(
            self._source.complete, template, argument, value, dict(given), what="complete"
        )
        return _all(found, str)


class OwnedPrompt:
    """A plugin's ``PromptSource``: its fields as they were when it was loaded, its answers checked."""

    def __init__(self, owner: Owner, source: Any) -> None:
        self._owner = owner
        self._source = source
        self.name = getattr(source, "name", None) or ""
        self.title = getattr(source, "title", "")
        self.description = getattr(source, "description", "")
        arguments = getattr(source, "arguments", ())
        if not self.name or not all(isinstance(text, str) for text in (self.name, self.title, self.description)):
            raise _incomplete("name, title, description")
        self.arguments: Sequence[PromptArgument] = _all(arguments, PromptArgument)
        if len(self.arguments) > ARGUMENTS_LIMIT:
            raise _incomplete(f"> {ARGUMENTS_LIMIT} arguments")
        _needs(source, "get")

    async def get(self, arguments: Mapping[str, str], context: CallContext) -> str | Sequence[Mapping[str, Json]]:
        with standing_in(context):
            given = await self._owner.run_source(self._source.get, dict(arguments), context, what="get")
        return given if isinstance(given, str) else _all(given, dict)

    async def complete(self, argument: str, value: str, given: Mapping[str, str]) -> Sequence[str]:
        if not callable(getattr(self._source, "complete", None)):
            return ()
        return _all(
            await self._owner.run_source(self._source.complete, argument, value, dict(given), what="complete"), str
        )


def _listed(declared: object, what: str) -> Sequence[object]:
    if not isinstance(declared, Sequence) or isinstance(declared, str | bytes) or len(declared) > SOURCES_LIMIT:
        raise PluginCodeError(
            both(
                f"{what}() 必须返回最多 {SOURCES_LIMIT} 项的列表",
                f"{what}() must return a list of at most {SOURCES_LIMIT}",
            )
        )
    return declared


def _all(value: object, kind: type[T]) -> Sequence[T]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) <= LISTED_LIMIT:
        listed = list(value)
        if all(isinstance(one, kind) for one in listed):
            return listed
    raise _odd(f"not a list of at most {LISTED_LIMIT} {kind.__name__}")


def _needs(source: object, *methods: str) -> None:
    for method in methods:
        if not callable(getattr(source, method, None)):
            raise _incomplete(method)


def _incomplete(what: str) -> PluginCodeError:
    return PluginCodeError(both(f"资源或提示词来源不完整：{what}", f"a source is incomplete: {what}"))


def _odd(what: str) -> VcpError:
    return PluginCodeError(both(f"插件的回答不正确：{what}", f"the plugin's answer is wrong: {what}"))
