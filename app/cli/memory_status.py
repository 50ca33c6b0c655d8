"""``vcp memory status``: how much is in the index of notes, what waits, what could not be read (memory.md 11.31)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.memory_server import Fields, answered, told
from app.cli.options import EXIT_OK, Commands, home_option, run
from app.errors import both
from app.protocol.json_text import pretty_json

if TYPE_CHECKING:
    from app.memory.index.memory_index import MemoryIndex
    from app.memory.index.sync import Sync


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("显示记忆索引的状态", "show how the index of notes is")
    parser = commands.add_parser("status", parents=[home_option()], help=text, description=text)
    parser.add_argument("--json", action="store_true", help=both("输出 JSON", "print JSON"))
    parser.set_defaults(run=_status)


def _status(options: argparse.Namespace) -> int:
    return run(_shown(options))


async def _shown(options: argparse.Namespace) -> int:
    status = await answered(options, "GET", "/v1/memory/status", None, _alone)
    print(pretty_json(dict(status)) if options.json else "\n".join(told(status)))
    return EXIT_OK


async def _alone(index: MemoryIndex, sync: Sync) -> Fields:
    from app.services.memory_index import index_status

    return await index_status(index, sync)
