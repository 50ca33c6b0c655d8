"""``vcp memory reembed``: what a change of the embedding model would cost, and agreeing to it (memory.md 11.4)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.cli.memory_server import Fields, answered
from app.cli.options import EXIT_OK, Commands, home_option, run
from app.cli.terminal import printable
from app.errors import ConfigError, both

if TYPE_CHECKING:
    from app.memory.index.memory_index import MemoryIndex
    from app.memory.index.sync import Sync


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("更换嵌入模型的费用与确认", "what a change of the embedding model costs, and agreeing to it")
    parser = commands.add_parser("reembed", parents=[home_option()], help=text, description=text)
    parser.add_argument("--yes", action="store_true", help=both("同意重新嵌入", "agree: embed all texts anew"))
    parser.set_defaults(run=_reembed)


def _reembed(options: argparse.Namespace) -> int:
    return run(_asked(options))


async def _asked(options: argparse.Namespace) -> int:
    told = await answered(options, "POST", "/v1/memory/reembed", {"confirm": options.yes}, no_server)
    waiting, building = told.get("waiting"), told.get("building")
    if isinstance(waiting, Mapping):
        print(f"{both('模型', 'model')}: {printable(str(waiting.get('model')))}")
        print(f"{both('文本', 'texts')}: {waiting.get('texts')}")
        print(f"{both('词元（估计）', 'tokens (estimated)')}: {waiting.get('tokens')}")
        if waiting.get("cost"):
            print(f"{both('费用（估计）', 'price (estimated)')}: {waiting.get('cost')}")
        said = both("已确认，正在后台重新嵌入", "agreed: they are embedded anew in the background")
        print(said if told.get("confirmed") else both("加 --yes 表示同意", "agree with --yes"))
    elif isinstance(building, Mapping):
        done = building.get("vectors")
        print(both(f"正在重新嵌入，已完成 {done}", f"being embedded anew, {done} done"))
    else:
        print(both("没有等待确认的更换", "no change waits for your word"))
    return EXIT_OK


async def no_server(_index: MemoryIndex, _sync: Sync) -> Fields:
    """Vectors are made by the server alone."""
    raise ConfigError(both("请先启动服务器：向量由它维护", "start the server first: it looks after the vectors"))
