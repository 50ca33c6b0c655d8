"""``vcp restore``: put a backup back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, home_option
from app.errors import ConfigError, both
from app.home.archive import ArchiveError
from app.home.lock import own_home
from app.home.restore import restore, verified


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("恢复备份", "put a backup back")
    more = both(
        "先校验全部内容；服务器运行时拒绝恢复", "everything is verified first; refused while a server runs in the home"
    )
    parser = commands.add_parser("restore", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument("file", type=Path, metavar="FILE", help=both("备份文件", "the backup"))
    parser.add_argument(
        "--force",
        action="store_true",
        help=both("替换内容不同的文件，原文件另存于 .vcp/replaced/", "replace files, keep the old in .vcp/replaced/"),
    )
    parser.add_argument("--verify", action="store_true", help=both("只校验，不恢复", "only verify the file"))
    parser.set_defaults(run=_restore)


def _restore(options: argparse.Namespace) -> int:
    home: Path = options.home.absolute()
    try:
        manifest = verified(options.file)
        print(
            both(
                f"备份完好：{len(manifest.files)} 个文件，制作于 {manifest.made}（{manifest.version}）",
                f"the backup is sound: {len(manifest.files)} files, made {manifest.made} by {manifest.version}",
            )
        )
        if options.verify:
            return EXIT_OK
        _make(home)
        with own_home(home, "restore"):
            report = restore(options.file, home, manifest, force=options.force)
    except ArchiveError as error:
        print(f"vcp: {error.message}", file=sys.stderr)
        return EXIT_FAILED
    print(
        both(
            f"已恢复 {len(report.restored)} 个文件，{report.unchanged} 个原本就相同",
            f"{len(report.restored)} files restored, {report.unchanged} were the same already",
        )
    )
    if report.aside is not None:
        print(both(f"被替换的文件保存在 {report.aside}", f"what was replaced is kept in {report.aside}"))
    return EXIT_OK


def _make(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            both(f"无法创建目录 {home}", f"the folder {home} cannot be made") + f": {error.strerror or error}"
        ) from error
