"""``vcp modular migrate``: an ordinary client's servers move behind the proxy (MOD-15 to MOD-19)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from app.cli.options import EXIT_FAILED, EXIT_OK
from app.cli.own_command import own_command
from app.cli.terminal import printable
from app.errors import both
from app.mcp.groups.migration import (
    OUTPUT_NAME,
    ClientFile,
    Found,
    MigrationError,
    check_output,
    client_after,
    migrated,
    read_client_file,
    write_migration,
)

MAX_DESCRIPTION = 2_000
MAX_ASKED = 100
"""So often one description is asked for, if nothing is written; then it is no person who answers."""


def add_migrate_options(parser: argparse._ArgumentGroup) -> None:
    """The options that only ``migrate`` has."""
    parser.add_argument(
        "-o",
        "--output-path",
        type=Path,
        metavar="PATH",
        help=both(
            f"新文件，默认为当前目录的 {OUTPUT_NAME}", f"the new file (default: {OUTPUT_NAME} in the working directory)"
        ),
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help=both("不提问，缺少的说明用默认文字", "ask nothing; who is not described gets a text that fits any server"),
    )
    parser.add_argument(
        "--description",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help=both("一个服务器的说明，可重复", "the description of a server; may be repeated"),
    )
    parser.add_argument("--force", action="store_true", help=both("覆盖已有的新文件", "overwrite an existing new file"))


def migrate(options: argparse.Namespace, path: Path) -> int:
    """Run the command; 0, or 1 when nothing could be done, with the reason on stderr."""
    output = (options.output_path or Path(OUTPUT_NAME)).absolute()
    try:
        file = read_client_file(path.absolute())
        check_output(file, output, force=options.force)  # before anybody is asked
        for oddity in file.oddities:
            told = both("不属于 JSON，不会保留", "is no JSON and will not be kept")
            _say("warn", f"{path}:{oddity.line}: {told}: {oddity.what}")
        descriptions = _descriptions(file, _given(options.description, file), ask=not options.yes)
        command = own_command()
        after = client_after(file, (command.program, *command.arguments, "modular"), output, command.environment)
        copy = write_migration(file, output, migrated(file.servers, descriptions), after, force=options.force)
    except MigrationError as error:
        _say("error", error.message)
        return EXIT_FAILED
    _say("info", both(f"已写入 {output}", f"written: {output}"))
    _say("info", both(f"迁移完成，{len(file.servers)} 个服务器", f"completed: {len(file.servers)} servers migrated"))
    _say(
        "info",
        both(f"{file.path} 已更新，原文件保存为 {copy}", f"{file.path} now starts the proxy; it was kept as {copy}"),
    )
    return EXIT_OK


def _say(level: str, text: str) -> None:
    print(f"[{level}] {printable(text)}", file=sys.stderr)


def _given(written: list[str], file: ClientFile) -> Mapping[str, str]:
    """The descriptions on the command line, by server."""
    known = {server.name for server in file.servers}
    given: dict[str, str] = {}
    for one in written:
        fitting = [name for name in known if one.startswith(f"{name}=")]
        name = max(fitting, key=len, default="")  # a name may hold a sign of equality
        text = _clean(one[len(name) + 1 :])
        if not fitting or not text:
            names = ", ".join(sorted(known))
            raise MigrationError(
                both(
                    f"--description {one[:100]} 应为 名称=说明，名称有",
                    f"--description {one[:100]} should be NAME=TEXT with a name of",
                )
                + f": {names}"
            )
        given[name] = text
    return given


def _clean(text: str) -> str:
    return " ".join(text.split())[:MAX_DESCRIPTION]


def _descriptions(file: ClientFile, given: Mapping[str, str], *, ask: bool) -> dict[str, str]:
    texts: dict[str, str] = {}
    for server in file.servers:
        text = given.get(server.name, "")
        if not text:
            text = _asked(server) if ask else server.description or f"Tools of {server.name}"
        texts[server.name] = text
    return texts


def _asked(server: Found) -> str:
    """A person's text for this server; what it has already is kept by an empty line (MOD-15)."""
    shown = f"{printable(server.name)} ({printable(server.kind)}: {printable(server.shown)[:300]})"
    keep = f" [{printable(server.description)}]" if server.description else ""
    for _ in range(MAX_ASKED):
        print(f"{both('说明', 'description of')} {shown}{keep}: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise MigrationError(
                both(
                    "没有人回答；请用 --description 名称=说明，或用 --yes",
                    "nobody answers; use --description NAME=TEXT or --yes",
                )
            )
        text = _clean(line) or server.description
        if text:
            return text
        print(both("说明不能为空", "it must not be empty"), file=sys.stderr)
    raise MigrationError(both("说明一直为空", "the description stayed empty"))
