"""``vcp memory``: looks after notes and what is made of them. Each of its commands has a module of its own."""

from __future__ import annotations

from importlib import import_module

from app.cli.options import Commands
from app.errors import both

PARTS = ("status", "explain", "check", "rebuild", "reembed", "import", "tags")
"""The commands behind ``vcp memory``; ``app.cli.memory_<name>`` adds each of them."""


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("管理日记和记忆", "look after notes and memory")
    parser = commands.add_parser("memory", help=text, description=text)
    actions = parser.add_subparsers(required=True, metavar=" | ".join(PARTS))
    for name in PARTS:
        import_module(f"app.cli.memory_{name}").add_to(actions)
