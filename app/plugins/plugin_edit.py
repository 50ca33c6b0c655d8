"""Switching plugins on and off and changing what they say, on disk (vcp-core 8.2). Nothing here reloads anything.

A plugin of the home is changed where it lies; for one of the program a person's word stands in the home
(``person_files``). Everything blocks. One writer at a time, in whatever process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from app.config.durable import move_atomic, remove_atomic, write_atomic
from app.config.edited_file import EditedFile, fingerprint, read_edited, write_edited
from app.config.file_lock import held
from app.errors import ManifestError, NotFoundError, VcpError, both
from app.extend import Json
from app.plugins.discovery import Plugin, PluginSet
from app.plugins.manifest import BLOCKED_NAME, MANIFEST_BYTES_LIMIT, MANIFEST_NAME, Manifest, read_manifest
from app.plugins.person_files import (
    OF_THE_PROGRAM,
    TEXTS_NAME,
    Texts,
    command_described,
    command_of,
    described,
    manifest_json,
    read_texts,
    texts_json,
)

CONFIG_NAME = "config.env"
LOCK_SECONDS = 5.0
MAX_TEXT_CHARS = 200_000
"""Longest description."""

_NO_FOLDER = ("", ".", "..")


class FolderTakenError(VcpError):
    """The folder of the home in which a person's word about a plugin would stand holds another plugin."""

    status = 409
    code = "folder_taken"


class TextsError(VcpError):
    """What a person has written about a plugin cannot be read, so nothing can be added to it."""

    status = 409
    code = "texts_unreadable"


@dataclass(frozen=True, slots=True)
class Installed:
    """One plugin of this machine. ``folder`` is where it lies, ``settings`` where its ``config.env`` is written.

    ``manifest`` is None for one that is switched off and cannot be read. ``of_program``: it came with the program.
    ``plugin`` is what the server has found, None for one that is switched off.
    """

    name: str
    enabled: bool
    folder: Path
    settings: Path
    manifest: Manifest | None
    of_program: bool
    plugin: Plugin | None = None

    @property
    def config(self) -> Path:
        """Its settings file, which may not exist."""
        return self.settings / CONFIG_NAME


class PluginFolders:
    """The plugins below ``roots``, the first of which is the home's; ``lock`` is the file that orders writers."""

    def __init__(self, roots: Sequence[Path], lock: Path) -> None:
        self._roots = tuple(roots)
        self._lock = lock

    def installed(self, found: PluginSet) -> tuple[Installed, ...]:
        """The plugins that were found, in their order, then those that are switched off, by folder."""
        return (*(self._enabled(plugin, found) for plugin in found.plugins), *self._disabled(found))

    def named(self, found: PluginSet, name: str) -> Installed:
        """The plugin of this name; raises NotFoundError."""
        enabled = next((plugin for plugin in found.plugins if plugin.name == name), None)
        if enabled is not None:
            return self._enabled(enabled, found)
        for one in self._disabled(found):
            if one.name == name:
                return one
        raise NotFoundError(both(f"没有插件 {name[:64]!r}", f"Plugin '{name[:64]}' not found."))

    # --- switching --------------------------------------------------------------------------------------------------

    def enable(self, one: Installed) -> None:
        """Let the plugin be found again. Raises OSError, TimeoutError, FolderTakenError."""
        blocked = one.folder / BLOCKED_NAME
        with self._writing():
            if one.of_program and one.folder == one.settings:
                remove_atomic(blocked)
                _remove_if_empty(one.folder)
            else:
                _move(blocked, one.folder / MANIFEST_NAME)

    def disable(self, one: Installed, found: PluginSet) -> None:
        """Let the plugin be found no longer. Raises OSError, TimeoutError, FolderTakenError."""
        ported = next((plugin for plugin in found.ported if plugin.name == one.name), None)
        folder = ported.folder if ported is not None else one.folder
        with self._writing():
            if ported is None and one.of_program:
                assert one.manifest is not None
                raw: dict[str, Json] = {**one.manifest.raw, OF_THE_PROGRAM: True}
                write_atomic(self._made(one) / BLOCKED_NAME, manifest_json(raw))
            else:
                _move(folder / MANIFEST_NAME, folder / BLOCKED_NAME)

    # --- texts ------------------------------------------------------------------------------------------------------

    def describe(self, one: Installed, text: str, expected: str | None = None) -> str:
        """Give the plugin another description; the answer names the new version of the file."""
        return self._change(
            one, expected, lambda raw: described(raw, text), lambda texts: replace(texts, description=text)
        )

    def describe_command(self, one: Installed, command: str, text: str, expected: str | None = None) -> str:
        """Give a command, by its identifier or command, another description; raises NotFoundError."""
        if one.manifest is None or command_of(one.manifest.raw, command) is None:
            raise NotFoundError(both(f"没有命令 {command[:64]!r}", f"Command '{command[:64]}' not found."))
        return self._change(
            one,
            expected,
            lambda raw: command_described(raw, command, text),
            lambda texts: replace(texts, commands={**texts.commands, command: text}),
        )

    def texts_version(self, one: Installed) -> str:
        """What names the version of the file in which descriptions are changed; empty while there is none."""
        try:
            return fingerprint(self._texts_file(one).read_bytes())
        except FileNotFoundError:
            return ""

    # --- settings ---------------------------------------------------------------------------------------------------

    def read_config(self, one: Installed) -> EditedFile | None:
        """The plugin's own settings; None while it has no file. Raises OSError, FileTooLargeError."""
        try:
            return read_edited(one.config, MANIFEST_BYTES_LIMIT)
        except FileNotFoundError:
            return None

    def write_config(self, one: Installed, text: str, expected: str | None = None) -> str:
        """Write the plugin's own settings; raises EditConflictError, OSError, TimeoutError, FolderTakenError."""
        self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self._made(one)
        mode = one.config.stat().st_mode & 0o777 if one.config.exists() else 0o600
        return write_edited(folder / CONFIG_NAME, text, expected, self._lock, mode=mode)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _enabled(self, plugin: Plugin, found: PluginSet) -> Installed:
        of_program = plugin.folder.parent != self._roots[0]
        ported = next((one for one in found.ported if one.name == plugin.name), None)
        settings = plugin.folder
        if of_program:
            settings = ported.folder if ported is not None else self._own_folder(plugin.name)
        return Installed(plugin.name, True, plugin.folder, settings, plugin.manifest, of_program, plugin)

    def _own_folder(self, name: str) -> Path:
        if name in _NO_FOLDER or any(mark in name for mark in "/\\\0"):
            raise NotFoundError(both(f"没有插件 {name[:64]!r}", f"Plugin '{name[:64]}' not found."))
        return self._roots[0] / name

    def _disabled(self, found: PluginSet) -> Iterator[Installed]:
        seen = {plugin.name for plugin in found.plugins}
        for root in self._roots:
            for folder in _folders(root):
                if (folder / MANIFEST_NAME).exists() or not (folder / BLOCKED_NAME).is_file():
                    continue
                try:
                    manifest = read_manifest(folder / BLOCKED_NAME)
                except ManifestError:
                    manifest = None
                name = manifest.name if manifest is not None else folder.name
                if name in seen:
                    continue
                seen.add(name)
                of_program = manifest is not None and manifest.raw.get(OF_THE_PROGRAM) is True
                yield Installed(name, False, folder, folder, manifest, of_program)

    def _change(
        self,
        one: Installed,
        expected: str | None,
        in_manifest: Callable[[Mapping[str, Json]], dict[str, Json]],
        in_texts: Callable[[Texts], Texts],
    ) -> str:
        self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._texts_file(one)
        version = self.texts_version(one) if expected is None else expected
        if file.name == TEXTS_NAME:
            try:
                data = texts_json(in_texts(read_texts(self._made(one))))
            except ValueError as error:
                raise TextsError(
                    both(f"{TEXTS_NAME} 无法读取", f"{TEXTS_NAME} cannot be read") + f": {error}"
                ) from None
        else:
            data = manifest_json(in_manifest(read_manifest(file).raw))
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
        return write_edited(file, data.decode("utf-8", "surrogateescape"), version, self._lock, mode=mode)

    def _texts_file(self, one: Installed) -> Path:
        if one.of_program:
            return one.settings / TEXTS_NAME
        return one.folder / (MANIFEST_NAME if one.enabled else BLOCKED_NAME)

    def _made(self, one: Installed) -> Path:
        """The folder of a person's word about it, made where it is missing."""
        if one.of_program and one.enabled and one.plugin is not None:
            self._check_free(one)
            one.settings.mkdir(parents=True, exist_ok=True)
        return one.settings

    def _check_free(self, one: Installed) -> None:
        for file in (MANIFEST_NAME, BLOCKED_NAME):
            try:
                other = read_manifest(one.settings / file).name
            except ManifestError:
                continue  # not there, or no plugin
            if other != one.name:
                place = f"{one.settings.parent.name}/{one.settings.name}"
                raise FolderTakenError(both(f"{place} 中是插件 {other}", f"{place} holds the plugin {other}"))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held(self._lock, LOCK_SECONDS):
            yield


def _folders(root: Path) -> list[Path]:
    try:
        return sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _move(source: Path, target: Path) -> None:
    """Rename a manifest; somebody else may have done it since we looked."""
    try:
        move_atomic(source, target)
    except FileNotFoundError:
        if not target.is_file():
            raise


def _remove_if_empty(folder: Path) -> None:
    if next(folder.iterdir(), None) is None:
        folder.rmdir()
