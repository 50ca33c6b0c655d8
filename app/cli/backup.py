"""``vcp backup``: an installation in one file."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime
from pathlib import Path

from app import __version__
from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, home_folder, home_option
from app.config.snapshot import load
from app.errors import ConfigError, both
from app.home.archive import ArchiveError
from app.home.backup import write_backup

SHOWN = 100
"""So many names are told at most."""


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("备份安装目录", "save an installation in one file")
    more = both(
        "服务器运行时也可备份；文件含密钥，请妥善保管",
        "also while its server runs; the file holds keys, keep it safe",
    )
    parser = commands.add_parser("backup", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help=both("目标文件，默认 vcp-backup-日期-时间.tar.gz", "the file (default: vcp-backup-DATE-TIME.tar.gz)"),
    )
    parser.add_argument(
        "--with-files",
        action="store_true",
        help=both("也包含 image/、file/ 和媒体描述缓存", "image/, file/ and descriptions of media too"),
    )
    parser.add_argument("--force", action="store_true", help=both("覆盖已有的文件", "replace a file that exists"))
    parser.set_defaults(run=_backup)


def _notebooks(home: Path) -> Path | None:
    try:
        return load(home, os.environ).notebooks
    except ConfigError:  # the backup itself tells which file cannot be read
        return None


def _backup(options: argparse.Namespace) -> int:
    home = home_folder(options)
    target: Path = options.file or Path(f"vcp-backup-{datetime.now().strftime('%Y%m%d-%H%M%S')}.tar.gz")
    try:
        report = write_backup(
            home,
            target,
            version=__version__,
            notebooks=_notebooks(home),
            with_files=options.with_files,
            replace=options.force,
        )
    except ArchiveError as error:
        print(f"vcp: {error.message}", file=sys.stderr)
        return EXIT_FAILED
    for name, what in report.told[:SHOWN]:
        print(f"{name}: {what}", file=sys.stderr)
    if len(report.told) > SHOWN:
        print(f"… +{len(report.told) - SHOWN}", file=sys.stderr)
    print(both(f"{target}：{report.files} 个文件，{report.size} 字节", f"{report.files} files, {report.size} bytes"))
    if report.lost:
        print(both(f"{report.lost} 个文件未能备份", f"{report.lost} files are missing in it"), file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK
