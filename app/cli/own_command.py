"""The command line that starts this program again, from any folder and by any other program."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PROGRAM = "vcp.exe" if sys.platform == "win32" else "vcp"
SOURCE = Path(__file__).resolve().parents[2]
"""The folder that our package is in."""


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A program with its first arguments, and the variables that it needs."""

    program: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def own_command(interpreter: Path = Path(sys.executable)) -> OwnCommand:
    """The ``vcp`` beside the interpreter where our package is installed there, else the interpreter with our package.

    What this process found by its working directory or by a variable is not there when another program starts it.
    """
    program = interpreter.with_name(PROGRAM)
    installed = installed_from(SOURCE)
    if installed and program.is_file():
        return OwnCommand(str(program))
    return OwnCommand(str(interpreter), ("-m", "app.cli"), {} if installed else {"PYTHONPATH": str(SOURCE)})


def installed_from(source: Path) -> bool:
    """Whether the interpreter finds the package of this folder by itself: installed, or linked to a checkout."""
    try:
        found = distribution("vcp-server")
    except PackageNotFoundError:
        return False
    if Path(str(found.locate_file("app"))).resolve() == source / "app":
        return True
    linked = json.loads(found.read_text("direct_url.json") or "{}")
    return linked.get("url") == source.as_uri() and bool(linked.get("dir_info", {}).get("editable"))
