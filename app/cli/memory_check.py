"""``vcp memory check``: whether the index agrees with itself and with the files, and its repair (memory.md 11.3)."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from app.cli.memory_server import Fields, answered, told
from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, home_option, run
from app.cli.terminal import printable
from app.errors import both

if TYPE_CHECKING:
    from app.memory.index.memory_index import MemoryIndex
    from app.memory.index.sync import Sync


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("检查并修复记忆索引", "check the index of notes and repair it")
    more = both(
        "索引由日记文件得出，修复即按文件重建。退出码：0 正常或已修复，1 有问题（--no-repair）",
        "The index follows from the files, and to repair it is to make it anew. Exit code: 0 it is well or repaired, "
        "1 it is not (--no-repair)",
    )
    parser = commands.add_parser("check", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument("--no-repair", action="store_true", help=both("只检查", "only look"))
    parser.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    return run(_checked(options))


async def _checked(options: argparse.Namespace) -> int:
    repair = not options.no_repair
    alone = partial(_alone, repair=repair)
    answer = await answered(options, "POST", "/v1/memory/check", {"repair": repair}, alone)
    faults = answer.get("faults")
    for fault in faults if isinstance(faults, list) else []:
        print(f"{both('错误', 'fault')}: {printable(str(fault))}")
    if answer.get("repaired"):
        print(both("已按日记文件重建索引", "the index was made anew from the files"))
    elif not faults:
        print(both("索引正常", "the index is well"))
    print("\n".join(told(answer)))
    return EXIT_FAILED if faults and not answer.get("repaired") else EXIT_OK


async def _alone(index: MemoryIndex, sync: Sync, *, repair: bool) -> Fields:
    from app.services.memory_index import check_index

    return await check_index(index, sync, repair=repair)
