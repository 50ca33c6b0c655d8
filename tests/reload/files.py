"""Files of an installation that is reloaded, and waiting for what follows from a change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from app.reload.watcher import Pace

WAIT_SECONDS = 15
"""Seconds after which a test gives up; a right program never gets there."""

QUICK = Pace(look_every=0.05, look_alone=0.02, rest=1, settle=0.02, settle_shrunk=0.2, longest=2)
"""Looks and waits that suit a test."""

DIRECT = {
    "pluginType": "messagePreprocessor",
    "entryPoint": {"type": "python", "script": "main.py"},
    "communication": {"protocol": "direct"},
}
"""What makes a plugin one that the server itself loads."""


def save(path: Path, *lines: str) -> None:
    """Write a file as good editors do: beside it first, then in its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.saving")
    beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    beside.replace(path)


def manifest_of(name: str, **fields: Any) -> str:
    """The text of a manifest."""
    entry = {"type": "python", "command": "python main.py"}
    return json.dumps({"name": name, "pluginType": "synchronous", "entryPoint": entry, **fields}, ensure_ascii=False)


def add_plugin(home: Path, name: str, **fields: Any) -> Path:
    """A plugin's folder with its manifest, or the same with another manifest."""
    folder = home / "Plugin" / name
    save(folder / "plugin-manifest.json", manifest_of(name, **fields))
    return folder


def tree(root: Path) -> dict[str, tuple[int, ...] | bytes]:
    """Everything below a folder: contents of files, times and inodes of all."""
    found: dict[str, tuple[int, ...] | bytes] = {}
    for folder, _, files in os.walk(root):
        status = Path(folder).stat()
        found[folder] = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        for name in files:
            path = Path(folder, name)
            status = path.stat()
            found[str(path)] = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            found[f"{path} content"] = path.read_bytes()
    return found
