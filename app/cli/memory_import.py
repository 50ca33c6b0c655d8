"""``vcp memory import [PATH]``: take over vectors of an existing ``VectorStore`` (memory.md 3.5)."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli.memory_reembed import no_server
from app.cli.memory_server import answered
from app.cli.options import EXIT_OK, Commands, home_option, run
from app.cli.terminal import printable
from app.errors import both


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("导入已有 VectorStore 的向量", "take over the vectors of an existing VectorStore")
    parser = commands.add_parser("import", parents=[home_option()], help=text, description=text)
    parser.add_argument(
        "path",
        nargs="?",
        help=both(
            "VectorStore 文件夹或其数据库，默认为 KNOWLEDGEBASE_STORE_PATH",
            "the folder VectorStore, or the database in it; KNOWLEDGEBASE_STORE_PATH by default",
        ),
    )
    parser.add_argument("--yes", action="store_true", help=both("写入；否则只报告", "write; without it only tell"))
    parser.set_defaults(run=_import)


def _import(options: argparse.Namespace) -> int:
    return run(_imported(options))


async def _imported(options: argparse.Namespace) -> int:
    body = {"confirm": options.yes} | ({"path": here(options.path)} if options.path else {})
    told = await answered(options, "POST", "/v1/memory/import", body, no_server)
    lines = (
        (both("文件", "files"), f"{told.get('files')}"),
        (both("其中已修改", "of them changed since"), f"{told.get('staleFiles')}"),
        (both("其中已不存在", "of them gone"), f"{told.get('missingFiles')}"),
        (both("片段", "chunks"), f"{told.get('chunks')}"),
        (
            both("文本一致", "texts that are ours"),
            f"{told.get('matched')} ({both('标签与名称', 'tags and names')} {told.get('tags')})",
        ),
        (both("无效向量", "bad vectors"), f"{told.get('badVectors')}"),
        (
            both("可沿用", "vectors to take over") if not told.get("written") else both("已沿用", "vectors taken over"),
            f"{told.get('reused')}",
        ),
        (both("仍需嵌入", "still to be embedded"), f"{told.get('toEmbed')}"),
    )
    for name, value in lines:
        print(f"{name}: {value}")
    if reason := told.get("reason"):
        print(f"{both('未沿用的原因', 'nothing is taken over')}: {printable(str(reason))}")
    if not told.get("written"):
        print(both("未写入任何内容；加 --yes 写入", "nothing was written; write with --yes"))
    return EXIT_OK


def here(path: str) -> str:
    """The server works in another folder than the person."""
    return str(Path(path).absolute())
