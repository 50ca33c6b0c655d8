"""What a plugin's process is started with: its command and its environment together (spec 5.4, 5.5)."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from app.plugins.command import SERVER_INTERPRETER, plan_launch
from app.plugins.discovery import Plugin

log = logging.getLogger(__name__)

_PROGRAM = Path(__file__).resolve().parents[2]


def plan_start(
    plugin: Plugin, child: tuple[dict[str, str], tuple[str, ...]], project_base: Path, server_python: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The arguments and the environment of a process that begins in the plugin's folder.

    ``child`` is what ``child_environment`` gave; what no process can take is told in the log. A plugin that runs in the
    server's interpreter finds the program's modules, also where it is run from a checkout (D38). Raises CommandError.
    """
    manifest = plugin.manifest
    environment, left_out = child
    if left_out:
        log.warning("plugin %s runs without variables no process can take: %s", plugin.name, ", ".join(left_out))
    launch = plan_launch(manifest, plugin.folder, project_base, environment, server_python)
    if manifest.interpreter == SERVER_INTERPRETER:
        environment["PYTHONPATH"] = _in_front(str(_PROGRAM), environment.get("PYTHONPATH"))
    if launch.path_first is not None:
        environment["PATH"] = _in_front(launch.path_first, environment.get("PATH"))
    return launch.argv, environment


def why_not_started(error: OSError) -> str:
    """What the system says of a start that failed, with the file that it names."""
    named = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{named}"


def _in_front(first: str, rest: str | None) -> str:
    return first if not rest else first + os.pathsep + rest
