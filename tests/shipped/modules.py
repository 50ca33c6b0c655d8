"""The modules of a shipped plugin, for tests of its parts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

PLUGINS = Path(__file__).resolve().parents[2] / "Plugin"


@contextmanager
def modules_of(plugin: str) -> Iterator[Callable[[str], ModuleType]]:
    """Give a module of the plugin by its name; they are imported as a package of their own, and forgotten after."""
    package = ModuleType(f"{plugin}_under_test")
    package.__path__ = [str(PLUGINS / plugin)]
    sys.modules[package.__name__] = package
    try:
        yield lambda name: importlib.import_module(f"{package.__name__}.{name}")
    finally:
        for name in [name for name in sys.modules if name.startswith(package.__name__)]:
            del sys.modules[name]
