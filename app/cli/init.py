"""``vcp init``: make an installation, and tell what comes next."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from app.cli.options import EXIT_OK, Commands
from app.errors import both
from app.home.new_home import make_new_home


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("新建安装目录", "make a new installation")
    more = both("已有的文件不会改动，可重复运行", "files that exist stay as they are; safe to repeat")
    parser = commands.add_parser("init", help=text, description=f"{text}. {more}.")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help=both("安装目录，默认为当前目录", "the folder, made if it is missing (default: the working directory)"),
    )
    parser.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    new = make_new_home(options.folder, os.environ)
    print(f"{both('安装目录', 'home')}: {new.home}")
    for name in new.made:
        print(f"  + {name}")
    for name in new.kept:
        print(f"  = {name} ({both('已存在，未改动', 'was there, unchanged')})")
    home = shlex.quote(str(new.home))
    steps = [
        both(
            "编辑 config.env：填写 API_URL 和 API_Key（不填则使用内置演示模型）",
            "edit config.env: set API_URL and API_Key (without them the built-in demo model answers)",
        ),
        both("检查", "check it") + f":  vcp check --home {home}",
        both("启动", "start it") + f":  vcp serve --home {home}",
    ]
    if new.generated_key:
        steps.append(both("查看客户端密钥", "see the key for clients") + f":  vcp keys --show --home {home}")
    steps.append(
        both("为另一台机器（节点）生成密钥", "make a key for another machine, a node")
        + f":  vcp keys node NAME --home {home}"
    )
    print(f"\n{both('接下来', 'next steps')}:")
    for number, step in enumerate(steps, 1):
        print(f"  {number}. {step}")
    return EXIT_OK
