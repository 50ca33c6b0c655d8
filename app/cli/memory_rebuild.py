"""``vcp memory rebuild``: make the index of notes anew from the files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.memory_server import Fields, answered, told
from app.cli.options import EXIT_OK, Commands, home_option, run
from app.errors import both

if TYPE_CHECKING:
    from app.memory.index.memory_index import MemoryIndex
    from app.memory.index.sync import Sync


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("按日记文件重建记忆索引", "make the index of notes anew from the files")
    parser = commands.add_parser("rebuild", parents=[home_option()], help=text, description=text)
    parser.set_defaults(run=_rebuild)


def _rebuild(options: argparse.Namespace) -> int:
    return run(_rebuilt(options))


async def _rebuilt(options: argparse.Namespace) -> int:
    status = await answered(options, "POST", "/v1/memory/rebuild", {}, _alone)
    print("\n".join(told(status)))
    return EXIT_OK


async def _alone(index: MemoryIndex, sync: Sync) -> Fields:
    from app.services.memory_index import index_status, rebuild_index

    await rebuild_index(index, sync, "a person asked for it")
    return await index_status(index, sync)
