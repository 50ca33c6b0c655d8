"""``vcp modular``: many MCP servers behind two tools, for a client that starts us (mcp.md section 2).

It needs no home: the one file names the servers.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from pathlib import Path

from app import __version__
from app.cli.migrate import add_migrate_options, migrate
from app.cli.options import EXIT_FAILED, Commands, run
from app.config.problem import Problem
from app.errors import VcpError, both
from app.mcp.client.servers_file import ServersFile, ServersFileError, read_servers_file
from app.mcp.groups.measure import measured
from app.mcp.groups.proxy import Expose
from app.observe.lines import BriefLines, LineFormatter, ScreenLog
from app.services.mcp_stdio import Streams, serve_stdio, until_signalled
from app.services.modular import modular_proxy

STATE_VARIABLE = "VCP_MODULAR_HOME"
"""The folder of sign-ins, where the environment says it."""

STATE_FOLDER = ".vcp-modular"
"""Its name in the home folder of the user, where nobody says it."""

DEBUG_VARIABLE = "DEBUG"
MAX_LINE_CHARS = 2_000
"""Longest line on stderr (2.8)."""

EXPOSE = "expose"
"""The root key of the file that says what clients see (MOD-14)."""

MIGRATE = "migrate"

_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warn"}

log = logging.getLogger(__name__)


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("把多个 MCP 服务器合成两个工具", "many MCP servers behind two tools, for the client that starts this")
    usage = "vcp modular CONFIG [--expose WORD] [--measure] | vcp modular migrate FILE [-o PATH] [--yes] [--force] ..."
    parser = commands.add_parser("modular", help=text, description=f"{text}.", usage=usage)
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CONFIG",
        help=both(
            "MCP 服务器的配置文件；或 migrate 加客户端的配置文件",
            "the file of the MCP servers; or migrate and the file of a client",
        ),
    )
    parser.add_argument(
        "--expose",
        type=Expose,
        choices=tuple(Expose),
        metavar="|".join(Expose),
        help=both("客户端看到什么，默认按文件，否则 modular", "what clients see (default: the file's, else modular)"),
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help=both(
            "打印两种方式的工具说明大小后退出", "print how large the descriptions of tools are in both ways, and end"
        ),
    )
    add_migrate_options(parser.add_argument_group(MIGRATE))
    parser.set_defaults(run=_modular)


def _modular(options: argparse.Namespace) -> int:
    words: list[str] = options.words
    if words[:1] == [MIGRATE] and len(words) == 2:
        return migrate(options, Path(words[1]))
    if len(words) != 1 or words == [MIGRATE]:  # MOD-1: one line, exit 1
        wanted = "migrate FILE" if words[:1] == [MIGRATE] else "CONFIG"
        return _failed(both(f"需要一个参数：vcp modular {wanted}", f"it needs one argument: vcp modular {wanted}"))
    return _serve(options, Path(words[0]))


def _failed(message: str) -> int:
    print(f"[error] {message}", file=sys.stderr)
    return EXIT_FAILED


def _serve(options: argparse.Namespace, path: Path) -> int:
    try:
        _check(path)
    except VcpError as error:
        return _failed(error.message)
    log_as_proxy()
    file = ServersFile(path.absolute(), lambda: os.environ, time.monotonic, further=frozenset({EXPOSE}))
    table = file.table(at_once=True)
    log.info("config loaded: %s, %d servers", path.name, len(table.entries))
    if options.measure:
        return run(until_signalled(_at_work(options, file, None)))
    from app.mcp.stdio.descriptors import take_standard_streams  # the SDK, which it is beside, was not needed before

    return run(until_signalled(_at_work(options, file, take_standard_streams())))


def _check(path: Path) -> None:
    """ServersFileError when nothing of the file can be read (D73); whoever reads it logs its smaller faults."""
    try:
        read_servers_file(path, os.environ, str(path), further=frozenset({EXPOSE}))
    except FileNotFoundError as error:
        raise ServersFileError(f"{path}: {both('无法读取', 'cannot be read')}: {error.strerror}") from error
    except ServersFileError as error:
        raise ServersFileError(str(Problem(str(path), error.line, "", error.message))) from error


async def _at_work(options: argparse.Namespace, file: ServersFile, streams: Streams | None) -> int:
    def expose() -> Expose:
        chosen: Expose | None = options.expose
        written = str(file.table().further.get(EXPOSE, ""))
        return chosen or (Expose(written) if written in tuple(Expose) else Expose.MODULAR)

    async with modular_proxy(file.table, expose=expose, folder=Path.cwd(), state=_state_folder()) as proxy:
        if streams is None:
            await proxy.settled.wait()
            print(json.dumps(measured(proxy.groups.of_now()).told(), ensure_ascii=False, indent=2))
            return 0
        return await serve_stdio(proxy.door, streams)


def _state_folder() -> Path:
    named = os.environ.get(STATE_VARIABLE, "")
    if named:
        return Path(named).absolute()
    try:
        return Path.home() / STATE_FOLDER
    except RuntimeError:  # an account without a home folder, as in some containers
        return Path.cwd() / STATE_FOLDER


class _WithLevel(logging.Formatter):
    """Gives lines the short word of their level, and cuts them (2.8)."""

    def __init__(self, inner: LineFormatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """``[info] text``, of at most ``MAX_LINE_CHARS`` characters; a stack, where one is wanted, as it is."""
        text = self._inner.format(record)
        if len(text) > MAX_LINE_CHARS and "\n" not in text:
            text = text[: MAX_LINE_CHARS - 1] + "…"
        return f"[{_LEVELS.get(record.levelno, 'error')}] {text}"


def log_as_proxy() -> None:
    """Write the log to stderr as such proxies do: level and text, no times, no stacks unless ``DEBUG=1`` (2.8)."""
    debug = os.environ.get(DEBUG_VARIABLE) == "1"
    handler = ScreenLog(sys.stderr)
    handler.setFormatter(_WithLevel(LineFormatter("%(message)s") if debug else BriefLines("%(message)s")))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if debug else logging.INFO, force=True)
    for name in ("mcp", "httpx2", "httpcore2", "asyncio"):  # below that they log whole messages
        logging.getLogger(name).setLevel(logging.WARNING)
