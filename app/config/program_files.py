"""Files that come with the program: in its package, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

EXAMPLE = "config.env.example"
FIRST_AGENT = "Agent/Nova.txt"
FIRST_TEXT = "TVStxt/ToolGuide.txt"


def program_file(name: str) -> Path:
    """Where the program keeps a file or folder that it brings."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "shipped" / name
    return shipped if shipped.exists() else package.parent / name


def program_plugins() -> Path:
    """The folder of the plugins that come with the program (D37)."""
    return program_file("Plugin")
