"""Which plugins there are: the sub-folders of the plugin roots that hold a manifest (spec 5.1, D37).

The rules, in one place:

* roots are searched in the order given (the installation's own ``Plugin/``, then the program's), folders by name;
* identity is the manifest's ``name``; the first one wins;
* ``plugin-manifest.json.block`` in place of ``plugin-manifest.json`` disables a plugin; with both it is enabled;
* a blocked plugin of one root also blocks the plugin of that name in the later roots, unless the same root has an
  enabled one: a person who blocks a plugin of the installation does not want the program's copy in its place;
* with the set of the last search at hand, files that cannot be read now leave what they had said before (P68);
* a module that needs Node is listed, and is served by the plugin of that name in a later root when there is one that
  runs here; that plugin then reads the settings file of the first folder (D37). The same holds for a command whose
  program, such as ``node``, is not on this machine;
* a command's ``toolName`` that a plugin or an earlier command has already is left out (D69);
* what a person has set of a plugin of a later root stands in a folder of its name, see ``person_files``.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.config import dotenv
from app.config.small_file import read_small
from app.errors import ManifestError
from app.plugins.command import missing_program
from app.plugins.manifest import BLOCKED_NAME, MANIFEST_BYTES_LIMIT, MANIFEST_NAME, Manifest, read_manifest
from app.plugins.person_files import TEXTS_NAME, read_texts, with_texts
from app.plugins.sources import digest, python_sources
from app.tools.names import settle

IMAGE_SERVER = "ImageServer"
"""The plugin that serves pictures."""

VCP_LOG = "VCPLog"
"""The plugin of older installations whose settings may hold the key of WebSockets."""

ParseEnv = Callable[[str], Mapping[str, str]]
"""Reads the text of a ``config.env`` (spec 2.1)."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin: what its manifest says, where it lives, and the settings of its own ``config.env``.

    ``sources`` is a digest of the code of an in-process plugin, empty for all others. ``lacks`` names the program that
    its command needs and that is not on this machine. Two plugins are equal when
    nothing of all this differs; then a reload leaves the plugin alone.
    """

    manifest: Manifest
    folder: Path
    own: Mapping[str, str] = field(default_factory=dict)
    sources: str = ""
    lacks: str = ""

    @property
    def name(self) -> str:
        """The plugin's identity."""
        return self.manifest.name

    @property
    def runs_here(self) -> bool:
        """False for modules that need Node; they are listed as "not run here"."""
        return not self.manifest.runs_in_node

    @property
    def can_be_served(self) -> bool:
        """False when nothing but another plugin of its name can do its work here."""
        return self.runs_here and not self.lacks

    @property
    def runs_in_process(self) -> bool:
        """True for Python modules that the server itself loads."""
        return self.manifest.protocol == "direct" and self.runs_here


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What was found: plugins in order, complaints for people (each names its file), names of blocked plugins.

    ``ported`` are those that cannot run here and in whose place a plugin of a later root does (D37).
    """

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    ported: tuple[Plugin, ...] = ()

    @property
    def image_key(self) -> str:
        """The ``Image_Key`` in the picture server's own ``config.env``, which beats the server's; empty without one."""
        return self._own(IMAGE_SERVER, "Image_Key")

    @property
    def socket_key(self) -> str:
        """The ``VCP_Key`` in VCPLog's own ``config.env``, which beats the server's; empty without one."""
        return self._own(VCP_LOG, "VCP_Key")

    def _own(self, name: str, key: str) -> str:
        plugin = next((plugin for plugin in self.plugins if plugin.name == name), None)
        return plugin.own.get(key, "").strip() if plugin is not None else ""


def discover(
    roots: Sequence[Path], parse_env: ParseEnv, before: PluginSet | None = None, *, search_path: str | None = None
) -> PluginSet:
    """Search the roots, first to last; a missing root has no plugins. Faults of one folder cost that folder only.

    With ``before``, the set of the last search, a folder whose manifest or settings cannot be read now (they may be
    half written) keeps what it had (P68). Programs are looked for in ``search_path``, written like ``PATH``; without it
    all are taken to be there.
    """
    search = _Search(parse_env, before or PluginSet(), search_path)
    seen: set[Path] = set()
    for root in roots:
        resolved = root.resolve()
        if resolved not in seen:
            seen.add(resolved)
            search.root(resolved)
    return search.result()


class _Search:
    def __init__(self, parse_env: ParseEnv, before: PluginSet, search_path: str | None) -> None:
        self._parse_env = parse_env
        self._search_path = search_path
        self._before = {plugin.folder: plugin for plugin in (*before.plugins, *before.ported)}
        self._blocked_before = before.blocked
        self._plugins: dict[str, Plugin] = {}
        self._problems: list[str] = []
        self._blocked: dict[str, None] = {}
        self._ported: dict[str, Plugin] = {}
        self._of_people: dict[str, Path] = {}

    def result(self) -> PluginSet:
        plugins = self._with_own_names()
        return PluginSet(
            plugins,
            tuple(self._problems),
            tuple(self._blocked),
            tuple(self._ported.values()),
        )

    def _with_own_names(self) -> tuple[Plugin, ...]:
        """The plugins with those names of commands that no other plugin has; the others are told (D69)."""
        settled, lost = settle((plugin.name, plugin.manifest.commands) for plugin in self._plugins.values())
        complaints: dict[str, list[str]] = {}
        for fault in lost:
            file = self._plugins[fault.tool].folder / MANIFEST_NAME
            text = f"{file}: field toolName: {fault.name} {fault.why}; ignored"
            complaints.setdefault(fault.tool, []).append(text)
            self._problems.append(text)
        return tuple(
            replace(
                plugin,
                manifest=replace(
                    plugin.manifest,
                    commands=settled[plugin.name],
                    complaints=(*plugin.manifest.complaints, *complaints[plugin.name]),
                ),
            )
            if plugin.name in complaints
            else plugin
            for plugin in self._plugins.values()
        )

    def root(self, root: Path) -> None:
        here: set[str] = set()
        blocked: list[str] = []
        of_people: dict[str, Path] = {}
        for folder in self._folders(root):
            if _may_be(folder / MANIFEST_NAME, stat.S_ISREG):
                plugin = self._read(folder)
                if plugin is not None:
                    self._add(plugin, here)
                continue
            if _may_be(folder / BLOCKED_NAME, stat.S_ISREG):
                blocked.append(_blocked_name(folder))
            of_people[folder.name] = folder
        self._of_people = {**of_people, **self._of_people}
        for name in blocked:
            if name not in self._plugins:
                self._blocked[name] = None

    def _folders(self, root: Path) -> list[Path]:
        try:
            entries = sorted(root.iterdir(), key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            self._problems.append(f"{root}: cannot be searched for plugins: {error.strerror or error}")
            self._blocked.update(dict.fromkeys(self._blocked_before))
            return [folder for folder in self._before if folder.parent == root]
        return [entry for entry in entries if _may_be(entry, stat.S_ISDIR)]

    def _read(self, folder: Path) -> Plugin | None:
        try:
            manifest = read_manifest(folder / MANIFEST_NAME)
        except ManifestError as error:
            old = self._before.get(folder)
            self._problems.append(error.message + (f"; {old.name} stays as it was" if old else ""))
            return old
        self._problems.extend(manifest.complaints)
        plugin = Plugin(manifest, folder, self._own_settings(folder / "config.env", self._before.get(folder)))
        if manifest.protocol == "stdio" and self._search_path is not None:
            plugin = replace(plugin, lacks=missing_program(manifest, folder, self._search_path))
        if not plugin.runs_in_process:
            return plugin
        sources = python_sources(folder)
        if sources.cut:
            self._problems.append(f"{folder}: too many files or folders; changes in some of its code are not noticed")
        try:
            return replace(plugin, sources=digest(folder, sources.files))
        except OSError as error:
            self._problems.append(f"{folder}: its code cannot be read now: {error.strerror or error}")
            before = self._before.get(folder)
            return plugin if before is None else replace(plugin, sources=before.sources)

    def _own_settings(self, path: Path, before: Plugin | None) -> Mapping[str, str]:
        """What the plugin's own file says; with a complaint what it said before, while it cannot be read."""
        old = before.own if before is not None else {}
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                self._problems.append(f"{path}: cannot be read: not a regular file")  # a pipe would be read for ever
                return old
            data = read_small(path, MANIFEST_BYTES_LIMIT + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._problems.append(f"{path}: cannot be read: {error.strerror or error}")
            return old
        if len(data) > MANIFEST_BYTES_LIMIT:
            self._problems.append(f"{path}: larger than {MANIFEST_BYTES_LIMIT} bytes; ignored")
            return old
        text = data.decode("utf-8-sig", "replace")
        if "\ufffd" in text:
            self._problems.append(f"{path}: not everywhere UTF-8; the wrong bytes were replaced")
        values = dict(self._parse_env(text))
        if before is not None:
            for entry in dotenv.parse(text):
                if not entry.closed and old.get(entry.key) != entry.value:
                    self._problems.append(
                        f"{path}:{entry.line}: {entry.key}: the quote is not closed on its line; "
                        "the plugin's settings stay as they were"
                    )
                    return old
        return values

    def _add(self, plugin: Plugin, here: set[str]) -> None:
        name = plugin.name
        if name in self._blocked:
            return
        first = self._plugins.get(name)
        if first is None:
            set_in = self._of_people.get(name)
            self._plugins[name] = plugin if set_in is None else self._as_people_want(plugin, set_in)
            here.add(name)
        elif name in here:
            self._problems.append(
                f"{plugin.folder / MANIFEST_NAME}: field name: {name} is already the plugin in {first.folder}; skipped"
            )
        elif plugin.can_be_served and not first.can_be_served:
            served = self._as_people_want(plugin, first.folder)
            self._plugins[name] = replace(served, own={**plugin.own, **first.own})
            self._ported[name] = first

    def _as_people_want(self, plugin: Plugin, folder: Path) -> Plugin:
        """A plugin of the program with the settings and texts in this folder of the home."""
        own = {**plugin.own, **self._own_settings(folder / "config.env", None)}
        try:
            manifest = with_texts(plugin.manifest, read_texts(folder), plugin.folder / MANIFEST_NAME)
        except (OSError, ValueError, ManifestError) as error:
            self._problems.append(f"{folder / TEXTS_NAME}: cannot be used: {error}")
            manifest = plugin.manifest
        return replace(plugin, manifest=manifest, own=own)


def _may_be(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether there is something of this kind, or something that cannot be looked at: reading it tells why not."""
    try:
        return kind(path.stat().st_mode)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _blocked_name(folder: Path) -> str:
    """The name a blocked manifest would have; the folder's when it cannot be read, for nobody needs it to be right."""
    try:
        return read_manifest(folder / BLOCKED_NAME).name
    except ManifestError:
        return folder.name
