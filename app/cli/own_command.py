"""The command line that starts this program again, from any folder and by any other program."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = "vcp.exe" if sys.platform == "win32" else "vcp"
SOURCE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A program with its first arguments, and the variables that it needs."""

    program: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def own_command(
    interpreter: str = sys.executable,
    search_path: Sequence[str] = tuple(sys.path),
    python_path: str = os.environ.get("PYTHONPATH", ""),
) -> OwnCommand:
    """The ``vcp`` beside the interpreter where our package is installed, else the interpreter with our package.

    ``search_path`` is that of the interpreter, whose first entry depends on how it was started; ``python_path`` holds
    what somebody else may not have in his environment.
    """
    borrowed = {Path(entry).resolve() for entry in python_path.split(os.pathsep) if entry}
    installed = SOURCE not in borrowed and any(Path(entry).resolve() == SOURCE for entry in search_path[1:] if entry)
    program = Path(interpreter).with_name(PROGRAM)
    if installed and program.is_file():
        return OwnCommand(str(program))
    return OwnCommand(interpreter, ("-m", "app.cli"), {} if installed else {"PYTHONPATH": str(SOURCE)})
