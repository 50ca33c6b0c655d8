"""What there is to read for MCP clients: diaries, agents, results of background plugins, descriptions of plugins.

Every part of an address is percent-encoded, so a name may be in any script and hold any character. All methods block.
"""

from __future__ import annotations

import errno
import logging
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote_to_bytes

from app.errors import VcpError, both
from app.prompt.agents import AgentBook
from app.prompt.files import contained
from app.protocol.json_text import pretty_json
from app.tools.background_results import BackgroundResults, Missing

log = logging.getLogger(__name__)

MAX_BYTES = 8 * 1024 * 1024
"""Largest resource that is read (MCP-28)."""

JSON_TYPE = "application/json"
TEXT = "text/plain"
MARKDOWN = "text/markdown"

DIARY_SUFFIXES = {".txt": TEXT, ".md": MARKDOWN}
README_NAMES = ("README.md", "readme.md", "Readme.md", "README.zh-CN.md", "README.txt", "README")


class ResourceTooLargeError(VcpError):
    """A resource is over ``MAX_BYTES``."""

    code = "resource_too_large"

    def __init__(self) -> None:
        size = MAX_BYTES // (1024 * 1024)
        super().__init__(both(f"资源超过 {size} MiB", f"the resource is larger than {size} MiB"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list of resources."""

    uri: str
    name: str
    mime_type: str
    title: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """What is behind an address; ``text`` when it is text whatever its type says."""

    data: bytes
    mime_type: str
    text: bool = False


class ResourceKind(Protocol):
    """All resources whose addresses begin with one word."""

    @property
    def scheme(self) -> str:
        """The word before ``://``."""
        ...

    @property
    def template(self) -> str:
        """Their addresses, with variables in braces (RFC 6570)."""
        ...

    @property
    def description(self) -> str:
        """What they are, for people."""
        ...

    def entries(self) -> Iterable[Entry]:
        """All there are now, in any order."""
        ...

    def read(self, parts: Sequence[str]) -> Content | None:
        """The content behind the decoded parts of an address, None when there is none. Raises VcpError."""
        ...

    def values(self, argument: str, given: Mapping[str, str]) -> Iterable[str]:
        """Values that a variable of the template may have, where the others are ``given``."""
        ...


def uri_of(scheme: str, *parts: str) -> str:
    """The address with these parts."""
    return f"{scheme}://" + "/".join(quote(part, safe="", errors="surrogatepass") for part in parts)


def uri_parts(uri: str) -> tuple[str, tuple[str, ...]]:
    """The word before ``://`` and the decoded parts behind it; no parts for what is no address of ours."""
    scheme, mark, rest = uri.partition("://")
    if not mark or not rest or "?" in rest or "#" in rest:
        return scheme, ()
    try:
        return scheme, tuple(unquote_to_bytes(part).decode("utf-8", "surrogatepass") for part in rest.split("/"))
    except ValueError:  # halves of characters
        return scheme, ()


def read_file(folder: Path, name: str) -> bytes | None:
    """A regular file directly below ``folder``, all links followed; None when there is none that may be read (B3)."""
    if not is_plain_name(name):
        return None
    try:
        path = contained(folder, name)
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > MAX_BYTES:
            raise ResourceTooLargeError
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ENAMETOOLONG):
            log.warning("%s of %s cannot be read as a resource: %s", name[:100], folder.name, error.strerror or error)
        return None
    if len(data) > MAX_BYTES:
        raise ResourceTooLargeError
    return data


def is_plain_name(name: str) -> bool:
    """False for hidden files, and for what would be more than one name."""
    return bool(name) and not name.startswith(".") and not any(mark in name for mark in "/\\\0")


class Diaries:
    """``diary://NOTEBOOK/FILE``: the notes below ``dailynote/``."""

    scheme = "diary"
    template = "diary://{notebook}/{file}"
    description = both("日记文件", "notes of diaries")

    def __init__(self, root: Path) -> None:
        self._root = root

    def entries(self) -> Iterator[Entry]:
        for notebook in self._notebooks():
            for file in self._files(notebook):
                yield Entry(uri_of(self.scheme, notebook, file), f"{notebook}/{file}", DIARY_SUFFIXES[_suffix(file)])

    def read(self, parts: Sequence[str]) -> Content | None:
        if len(parts) != 2 or _suffix(parts[1]) not in DIARY_SUFFIXES:
            return None
        folder = self._folder(parts[0])
        data = read_file(folder, parts[1]) if folder is not None else None
        return None if data is None else Content(data, DIARY_SUFFIXES[_suffix(parts[1])])

    def values(self, argument: str, given: Mapping[str, str]) -> Iterable[str]:
        if argument == "notebook":
            return self._notebooks()
        if argument != "file":
            return ()
        notebook = given.get("notebook")
        return self._files(notebook) if notebook is not None else ()

    def _notebooks(self) -> list[str]:
        return [name for name in _names(self._root) if self._folder(name) is not None]

    def _files(self, notebook: str) -> list[str]:
        folder = self._folder(notebook)
        names = _names(folder) if folder is not None else []
        return [name for name in names if is_plain_name(name) and _suffix(name) in DIARY_SUFFIXES]

    def _folder(self, notebook: str) -> Path | None:
        if not is_plain_name(notebook):
            return None
        try:
            folder = contained(self._root, notebook)
            return folder if stat.S_ISDIR(folder.stat().st_mode) else None
        except OSError:
            return None  # there is none, or it leads elsewhere


class Agents:
    """``agent://NAME``: the texts behind ``agent_map.json``, as their author wrote them."""

    scheme = "agent"
    template = "agent://{name}"
    description = both("角色提示词", "prompts of agents")

    def __init__(self, book: AgentBook) -> None:
        self._book = book

    def entries(self) -> Iterator[Entry]:
        for alias in self._book.load().aliases:
            yield Entry(uri_of(self.scheme, alias), alias, TEXT)

    def read(self, parts: Sequence[str]) -> Content | None:
        path = self._book.load().aliases.get(parts[0]) if len(parts) == 1 else None
        text = self._book.prompt(parts[0], path) if path is not None else None
        return None if text is None else Content(text.encode("utf-8", "replace"), TEXT)

    def values(self, argument: str, given: Mapping[str, str]) -> Iterable[str]:
        return self._book.load().aliases if argument == "name" else ()


class BackgroundTaskResults:
    """``result://PLUGIN/ID``: what background plugins have told of their tasks. ``plugins`` names those of now."""

    scheme = "result"
    template = "result://{plugin}/{id}"
    description = both("异步插件的结果", "results of background plugins")

    def __init__(self, results: BackgroundResults, plugins: Callable[[], Collection[str]]) -> None:
        self._results = results
        self._plugins = plugins

    def entries(self) -> Iterator[Entry]:
        for plugin, task in self._results.stored(self._plugins()):
            yield Entry(uri_of(self.scheme, plugin, task), f"{plugin} {task}", JSON_TYPE)

    def read(self, parts: Sequence[str]) -> Content | None:
        if len(parts) != 2:
            return None
        found = self._results.read(parts[0], parts[1])
        if isinstance(found, Missing):
            return None
        data = pretty_json(found).encode("utf-8", "replace")
        if len(data) > MAX_BYTES:
            raise ResourceTooLargeError
        return Content(data, JSON_TYPE)

    def values(self, argument: str, given: Mapping[str, str]) -> Iterable[str]:
        stored = tuple(self._results.stored(self._plugins())) if argument in ("plugin", "id") else ()
        if argument == "plugin":
            return [plugin for plugin, _ in stored]
        return [task for plugin, task in stored if plugin == given.get("plugin", plugin)]


@dataclass(frozen=True, slots=True)
class Described:
    """A plugin: where it lives, and what its manifest says for people."""

    name: str
    title: str
    folder: Path
    text: str


class PluginReadmes:
    """``plugin://NAME/readme``: the README in a plugin's folder, else what its manifest says of its commands."""

    scheme = "plugin"
    template = "plugin://{name}/readme"
    description = both("插件说明", "what plugins do and how they are called")

    def __init__(self, plugins: Callable[[], Iterable[Described]]) -> None:
        self._plugins = plugins

    def entries(self) -> Iterator[Entry]:
        for plugin in self._plugins():
            yield Entry(f"{uri_of(self.scheme, plugin.name)}/readme", plugin.name, MARKDOWN, plugin.title)

    def read(self, parts: Sequence[str]) -> Content | None:
        if len(parts) != 2 or parts[1] != "readme":
            return None
        plugin = next((plugin for plugin in self._plugins() if plugin.name == parts[0]), None)
        if plugin is None:
            return None
        for name in README_NAMES:
            data = read_file(plugin.folder, name)
            if data is not None:
                return Content(data, MARKDOWN)
        return Content(plugin.text.encode("utf-8", "replace"), MARKDOWN)

    def values(self, argument: str, given: Mapping[str, str]) -> Iterable[str]:
        return [plugin.name for plugin in self._plugins()] if argument == "name" else ()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("%s cannot be listed: %s", folder.name, error.strerror or error)
        return []


def _suffix(name: str) -> str:
    return Path(name).suffix.lower()
