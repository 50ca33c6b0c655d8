"""The Python code of one in-process plugin, imported as a package of its own.

The folder of the plugin's script becomes a package with a private name that is never used twice, so

* files of the folder are imported relatively (``from . import texts``) and can never be mistaken for those of another
  plugin, of the server or of a library;
* a reload imports everything anew, beside the old code, which goes on until the new one serves;
* no compiled files are kept: they are told apart by whole seconds and sizes, so that a quick edit would not be seen.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType

from app.errors import VcpError, both

PACKAGE_PREFIX = "vcp_plugin_"
"""What the private package names begin with; it tells frames of plugins from all others."""

_PLUGIN = "__plugin__"
"""Where a private package keeps the plugin's own name."""

SOURCE_BYTES_LIMIT = 4 * 1024 * 1024


class PluginCodeError(VcpError):
    """The plugin's code cannot be used; the message says why."""

    code = "plugin_code"


class PluginPackage:
    """The private package of one version of one plugin. ``load`` and ``unload`` block; they run in a thread."""

    def __init__(self, plugin: str, folder: Path, script: str, number: int) -> None:
        self._plugin = plugin
        self._folder = folder
        self._script = script
        self.name = f"{PACKAGE_PREFIX}{re.sub(r'[^0-9A-Za-z]', '_', plugin)[:60]}_{number}"
        self._finder = _Finder(self.name)

    def load(self) -> ModuleType:
        """Import the script; raises PluginCodeError when there is none, and whatever the code itself raises."""
        path = self._script_path()
        package = ModuleType(self.name)
        package.__path__ = [str(path.parent)]
        setattr(package, _PLUGIN, self._plugin)
        sys.modules[self.name] = package
        sys.meta_path.insert(0, self._finder)
        name = f"{self.name}.{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}"
        spec = importlib.util.spec_from_file_location(name, path, loader=_Source(name, str(path)))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            hint = self._sibling_hint(path.parent, error.name or "")
            if hint is None:
                raise
            raise PluginCodeError(hint) from error
        return module

    def unload(self) -> None:
        """Forget the package; what still runs of it goes on, but can import nothing more of its folder."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        for name in [name for name in tuple(sys.modules) if name == self.name or name.startswith(f"{self.name}.")]:
            sys.modules.pop(name, None)

    def _script_path(self) -> Path:
        written = self._script
        if not written or "\0" in written:
            raise PluginCodeError(both("entryPoint.script 缺失", "entryPoint.script is missing"))
        folder = self._folder.resolve()
        path = (folder / written).resolve()
        if not path.is_relative_to(folder):
            raise PluginCodeError(
                both(f"entryPoint.script {written} 不在插件目录内", f"entryPoint.script {written} leaves the folder")
            )
        if path.suffix != ".py" or not path.is_file():
            raise PluginCodeError(
                both(f"entryPoint.script {written} 不是 Python 文件", f"entryPoint.script {written} is no Python file")
            )
        return path

    def _sibling_hint(self, folder: Path, missing: str) -> str | None:
        """What to write instead, where an absolute import meant a file beside the script."""
        first = missing.partition(".")[0]
        if not first or not ((folder / f"{first}.py").is_file() or (folder / first).is_dir()):
            return None
        return both(
            f"请用 from . import {first} 导入本目录的 {first}", f"write 'from . import {first}' for the file beside it"
        )


class _Source(importlib.machinery.SourceFileLoader):
    """Compiles the source at each load and never looks at compiled files."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        with open(path, "rb") as file:  # noqa: PTH123 - the loader of the standard library gives the path as text
            data = file.read(SOURCE_BYTES_LIMIT + 1)
        if len(data) > SOURCE_BYTES_LIMIT:
            raise ImportError(f"{path} is larger than {SOURCE_BYTES_LIMIT} bytes", path=path)
        code = self.source_to_code(data, path)
        assert isinstance(code, CodeType)
        return code


class _Finder(MetaPathFinder):
    """Finds the modules of one private package, and nothing else."""

    def __init__(self, package: str) -> None:
        self._prefix = f"{package}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(self._prefix):
            return None
        loaders = (
            (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
            (_Source, importlib.machinery.SOURCE_SUFFIXES),
        )
        for entry in path or ():
            spec = importlib.machinery.FileFinder(entry, *loaders).find_spec(fullname, target)
            if spec is not None:
                return spec
        return None


def plugin_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that belongs to a plugin's code."""
    while frame is not None and not str(frame.f_globals.get("__name__", "")).startswith(PACKAGE_PREFIX):
        frame = frame.f_back
    return frame


def plugin_of(frame: FrameType) -> str:
    """The name of the plugin whose code this frame runs."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return str(getattr(sys.modules.get(package), _PLUGIN, package))


def place_of(frame: FrameType) -> str:
    """``main.py:12 in call``."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"


def told_error(error: BaseException) -> str:
    """An error of a plugin in one line: its kind, its words, and where in the plugin's code it came up."""
    said = error.message if isinstance(error, VcpError) else f"{type(error).__name__}: {error}"
    place = error_place(error)
    return f"{said} ({place})" if place else said


def error_place(error: BaseException) -> str:
    """The innermost place in a plugin's code that an error went through; for the log, which must not hold its words."""
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '?').name}:{error.lineno}"
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = next((frame for frame in reversed(frames) if plugin_frame(frame) is frame), None)
    if found is None:
        return ""
    lines = {frame: line for frame, line in traceback.walk_tb(error.__traceback__)}
    return f"{Path(found.f_code.co_filename).name}:{lines[found]} in {found.f_code.co_name}"
