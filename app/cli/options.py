"""What several commands share: options, exit codes, the configuration of the home, the event loop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from app.config.home_folders import make_home
from app.config.snapshot import Config, load
from app.errors import ConfigError, both
from app.extend import UpstreamTarget
from app.observe.lines import LineFormatter, PlainRecord, ScreenLog, set_log
from app.plugins.in_process_modules import error_place

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a command adds its parser."""

log = logging.getLogger(__name__)

MAX_PORT = 65_535

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2


def home_option(default: Path | str = Path()) -> argparse.ArgumentParser:
    """The option ``--home``, as a parent of a command's parser.

    A command inside a command has ``argparse.SUPPRESS`` as default, so that what stood before it is kept.
    """
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument(
        "--home",
        type=Path,
        default=default,
        metavar="DIR",
        help=both(
            "安装目录，默认为当前目录",
            "installation root: config.env, Plugin/, Agent/, TVStxt/, dailynote/ (default: the working directory)",
        ),
    )
    return parent


def port(text: str) -> int:
    """A port number out of the command line."""
    if not text.isascii() or not text.isdigit() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(
            both(f"'{text}' 不是 0 到 {MAX_PORT} 的端口号", f"'{text}' is not a port, a number from 0 to {MAX_PORT}")
        )
    return int(text)


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run on the fastest event loop there is, to the end or to Ctrl-C.

    A ``SystemExit`` or ``KeyboardInterrupt`` in a task or callback that a plugin inside the server began by itself
    would stop the loop, and with it everybody's answers; it is logged and the work goes on.
    """
    factory = None
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        task = runner.get_loop().create_task(work)
        while True:
            try:
                return runner.run(_ended(task))
            except (SystemExit, KeyboardInterrupt) as fault:
                if task.done():  # Ctrl-C has cancelled it, or it asked for the end itself
                    raise
                log.error(
                    "something asked for the end of the program (%s%s); it goes on",
                    type(fault).__name__,
                    f" at {place}" if (place := error_place(fault)) else "",
                )


async def _ended(task: asyncio.Task[int]) -> int:
    """Wait for a task; being cancelled cancels it, and is over when the task is."""
    return await task


def home_folder(options: argparse.Namespace) -> Path:
    """The absolute path of the home; ConfigError when there is no such folder."""
    home: Path = options.home
    if not home.is_dir():
        raise ConfigError(both(f"--home {home} 不是目录", f"--home {home} is not a folder"))
    return home.absolute()


def reader(options: argparse.Namespace) -> Callable[[], Config]:
    """Reads the configuration of now under the environment and the options that the command was started with."""
    given = {"HOST": getattr(options, "host", None), "PORT": getattr(options, "port", None)}
    overrides = {key: str(value) for key, value in given.items() if value is not None}
    return partial(load, home_folder(options), dict(os.environ), overrides)


def log_as_configured(config: Config, level: int = logging.INFO) -> None:
    """Log from ``level`` on, or everything with ``DebugMode``, with times in the configured zone."""
    set_log(logging.DEBUG if config.settings.debug_mode else level, config.zone)


def log_to_screen(config: Config, level: int = logging.INFO) -> None:
    """Write the log to stderr from now on."""
    # Nothing of this stands in a line, and finding it out costs more than writing the line ("Optimization" in the
    # manual of logging).
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.setLogRecordFactory(PlainRecord)
    handler = ScreenLog(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    log_as_configured(config, level)
    # The SDK of MCP tells the names of sessions, which are as good as a key to them.
    for name in ("httpx", "httpcore", "httpx2", "httpcore2", "asyncio", "uvicorn", "watchfiles", "mcp"):
        logging.getLogger(name).setLevel(logging.WARNING)


def prepare_home(config: Config) -> None:
    """Log what is wrong with the configuration, and make the folders of the home that are missing."""
    for problem in config.problems:
        log.warning("%s", problem)
    make_home(config.home, config.notebooks)


class NoModel:
    """The model API of a command that runs tools; it needs no ``API_URL``."""

    def resolve(self, model: str) -> Sequence[UpstreamTarget]:
        raise ConfigError(both("此命令不调用模型", "this command asks no model"))

    def targets(self) -> Sequence[UpstreamTarget]:
        return ()


def configured(read_config: Callable[[], Config], level: int = logging.INFO) -> Config:
    """The configuration of the home, whose folders are made; from now on the log goes to stderr."""
    config = read_config()
    log_to_screen(config, level)
    prepare_home(config)
    return config
