"""``vcp mcp``: our tools for a client of the Model Context Protocol that starts us and speaks over our pipes.

Beside a running server everything goes through it; without one the tools run in this process (D88). With ``--only`` it
is a server of its own with a few plugins, which needs no home.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from app.cli.mcp_snippets import CLIENTS, reached, started
from app.cli.options import (
    EXIT_FAILED,
    Commands,
    NoModel,
    home_folder,
    log_to_screen,
    prepare_home,
    reader,
    run,
)
from app.cli.own_command import own_command
from app.config.addresses import own_address
from app.config.keys import server_key, strong_value
from app.config.program_files import program_plugins
from app.config.snapshot import Config, load
from app.errors import ConfigError, both
from app.home.lock import owner_of
from app.observe.lines import BriefLines
from app.plugins.discovery import Plugin
from app.protocol.call_depth import check_depth, environment_depth
from app.services import Services
from app.services.mcp_shelves import give_shelves
from app.services.mcp_stdio import (
    Streams,
    confine,
    first_lists,
    relay_stdio,
    serve_nothing,
    serve_stdio,
    until_signalled,
)

ROOT_VARIABLE = "VCP_MCP_ROOT"
"""The folder that a stand-alone server works in, where no option says it."""

DEBUG_VARIABLE = "DEBUG"
OWNER_SECONDS = 10.0
"""How long a server that is just starting is waited for."""

LAYOUT = "%(levelname)s %(name)s: %(message)s"

log = logging.getLogger(__name__)


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("把工具提供给启动本程序的 MCP 客户端", "serve the tools to the MCP client that starts this")
    more = both("标准输入输出只传输协议消息", "standard input and output carry nothing but messages of the protocol")
    parser = commands.add_parser("mcp", help=text, description=f"{text}. {more}.")
    parser.add_argument(
        "--home",
        type=Path,
        metavar="DIR",
        help=both("安装目录，默认为当前目录", "installation root (default: the working directory)"),
    )
    parser.add_argument(
        "--only",
        type=_names,
        metavar="PLUGIN[,PLUGIN]",
        help=both("独立运行，只提供这些插件", "a server of its own with these plugins alone; it needs no home"),
    )
    parser.add_argument(
        "--plugins",
        type=Path,
        metavar="DIR",
        help=both("先在此目录查找这些插件", "the folder where they are looked for first"),
    )
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help=both(
            f"这些插件的工作目录；否则用环境变量 {ROOT_VARIABLE} 或当前目录",
            f"the folder that they work in; else {ROOT_VARIABLE} of the environment, or the working directory",
        ),
    )
    parser.add_argument(
        "--allow-external-src",
        action="store_true",
        help=both("允许导入 root 之外的文件", "let imports read files outside of the root"),
    )
    parser.add_argument(
        "--ignore-plugin-load-error",
        action="store_true",
        help=both("插件加载失败时仍然启动", "start even though a plugin cannot be loaded"),
    )
    parser.add_argument(
        "--print-config",
        choices=CLIENTS,
        metavar="|".join(CLIENTS),
        help=both("打印该客户端的配置后退出", "print what this client wants in its configuration, and end"),
    )
    parser.add_argument(
        "--http",
        action="store_true",
        help=both("打印连接运行中服务器的配置", "print the configuration for a running server's /mcp"),
    )
    parser.set_defaults(run=_mcp)


def _names(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise argparse.ArgumentTypeError(both("没有插件名", "it names no plugin"))
    return names


def _mcp(options: argparse.Namespace) -> int:
    if options.only is None:
        for name in ("plugins", "root", "allow_external_src", "ignore_plugin_load_error"):
            if getattr(options, name):
                option = "--" + name.replace("_", "-")
                raise ConfigError(both(f"{option} 需要与 --only 一起使用", f"{option} is for --only"))
    if options.print_config:
        return _print_config(options)
    if options.http:
        raise ConfigError(both("--http 需要与 --print-config 一起使用", "--http is for --print-config"))
    from app.mcp.stdio.descriptors import take_standard_streams  # the SDK, which it is beside, is not needed yet

    streams = take_standard_streams()  # before anything can print
    if os.isatty(streams[0]):
        hint = both(
            "本命令由 MCP 客户端启动，等待其协议消息；--print-config 打印客户端的配置，Ctrl-C 结束",
            "an MCP client starts this and sends it messages; --print-config prints what to configure, Ctrl-C ends it",
        )
        print(hint, file=sys.stderr)
    if options.only is not None:
        return _stand_alone(options, streams)
    options.home = options.home or Path()
    config = reader(options)()
    log_to_screen(config, logging.WARNING)
    _log_briefly(config, (config.home,))
    prepare_home(config)
    depth = environment_depth(os.environ)
    check_depth(depth, config.settings.max_call_depth)
    key = server_key(config).value
    if owner_of(config.home) is not None:
        return run(until_signalled(_through(config.home, key, depth, streams)))
    return run(until_signalled(_alone(config, key, depth, streams)))


# Beside a running server.


async def _through(home: Path, key: str, depth: int, streams: Streams) -> int:
    from app.mcp.stdio.session import Destination

    def where() -> Destination:
        """The server that owns the home now. Blocks."""
        end = time.monotonic() + OWNER_SECONDS
        while (owner := owner_of(home)) is not None and not owner.address and time.monotonic() < end:
            time.sleep(0.05)
        if owner is None or not owner.address:
            text = both(
                "没有服务器在运行，请用 vcp serve 启动", "no server is running any more; start it with vcp serve"
            )
            raise ConfigError(text)
        return Destination(f"{owner.address}/mcp", key, str(owner.pid), depth)

    return await relay_stdio(where, streams)


# Without one.


async def _alone(config: Config, key: str, depth: int, streams: Streams) -> int:
    services = Services(config, key, resolver=NoModel(), owns_home=False)
    give_shelves(services)
    return await _serve(services, depth, streams)


async def _serve(services: Services, depth: int, streams: Streams, options: argparse.Namespace | None = None) -> int:
    async with AsyncExitStack() as stack:
        if any("asynchronous" in spec.labels for spec in services.router.specs().values()):
            # Their processes call back when the work is done, so somebody has to listen for as long.
            from app.web.app import create_app  # loaded late: a client waits for the start
            from app.web.server import serve

            services.served_at(await stack.enter_async_context(serve(create_app(services))))
        else:
            await stack.enter_async_context(services.running_parts())
        if options is not None and (problem := await _load_problem(services, options.only)):
            return await _not_loaded(problem, options, streams)
        door = await services.mcp.serving.door()
        if options is None:
            await stack.enter_async_context(first_lists(door, services.mcp))
        else:
            root, source = await asyncio.to_thread(_root, options, services.config)
            confine(door, root, external_sources=options.allow_external_src)
            count = sum(1 for _ in services.router.listed())
            print(f"vcp mcp: {count} tools, root from {source}", file=sys.stderr, flush=True)
        return await serve_stdio(door, streams, depth=depth)


# With a few plugins alone.


def _stand_alone(options: argparse.Namespace, streams: Streams) -> int:
    with tempfile.TemporaryDirectory(prefix="vcp-mcp-") as scratch:
        home = Path(scratch) if options.home is None else home_folder(options)
        config = load(home, dict(os.environ))
        log_to_screen(config, logging.WARNING)
        folders = (home, Path(scratch), *(path for path in (options.root, options.plugins) if path is not None))
        _log_briefly(config, folders)
        for problem in config.problems:
            log.warning("%s", problem)
        if options.plugins is not None and not options.plugins.is_dir():
            raise ConfigError(both("--plugins 不是目录", "--plugins is not a folder"))
        folder = options.plugins.absolute() if options.plugins is not None else None
        config = replace(config, only_plugins=options.only, plugin_folder=folder)
        depth = environment_depth(os.environ)
        check_depth(depth, config.settings.max_call_depth)
        services = Services(config, strong_value(), resolver=NoModel(), owns_home=False)
        return run(until_signalled(_serve(services, depth, streams, options)))


async def _load_problem(services: Services, names: Iterable[str]) -> str:
    """Why one of the plugins cannot serve; empty when all can (STD-43)."""
    found = {plugin.name: plugin for plugin in services.found_plugins.plugins}
    await services.in_process.load_all()
    for name in sorted(names):
        plugin = found.get(name)
        if plugin is None:
            return f"no plugin is called {name}, or its manifest cannot be read"
        if why := _unusable(plugin):
            return f"plugin {name}: {why}"
    return next(iter(services.in_process.problems()), "")


def _unusable(plugin: Plugin) -> str:
    if plugin.lacks:
        return f"{plugin.lacks} is not on this machine"
    return "" if plugin.runs_here else "its module is for Node"


async def _not_loaded(problem: str, options: argparse.Namespace, streams: Streams) -> int:
    log.error("%s", problem)
    return await serve_nothing(streams) if options.ignore_plugin_load_error else EXIT_FAILED


def _root(options: argparse.Namespace, config: Config) -> tuple[Path, str]:
    """The folder that the plugins work in, and where that was said (STD-2)."""
    written, source = options.root, "--root"
    if written is None:
        variable = config.environ.get(ROOT_VARIABLE, "")
        written, source = (Path(variable), ROOT_VARIABLE) if variable else (Path(), "the working directory")
    if not written.is_dir():
        raise ConfigError(both(f"{source} 不是目录", f"{source} is not a folder"))
    return written.resolve(), source


# Log and configuration.


def _log_briefly(config: Config, folders: Iterable[Path]) -> None:
    """Lines of the log without stacks, paths of this machine and what tools say, unless ``DEBUG=1`` (STD-45 … 48)."""
    logging.getLogger("mcp").setLevel(logging.WARNING)  # below that it logs whole messages
    logging.getLogger("mcp.client").setLevel(logging.ERROR)  # we tell ourselves when the server is gone
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if config.environ.get(DEBUG_VARIABLE) == "1":
        return
    logging.getLogger("app.turns").setLevel(logging.CRITICAL)  # errors of tools, which may name what they work on
    known = {str(form) for path in (*folders, Path(), program_plugins()) for form in (path.absolute(), path.resolve())}
    for handler in logging.getLogger().handlers:
        handler.setFormatter(BriefLines(LAYOUT, config.zone, folders=known))


def _print_config(options: argparse.Namespace) -> int:
    if options.http:
        options.home = options.home or Path()
        config = reader(options)()
        owner = owner_of(config.home)
        base = owner.address if owner is not None and owner.address else ""
        url = f"{base or own_address(config.settings.host, config.settings.port)}/mcp"
        snippet = reached(options.print_config, url, server_key(config).value)
        print(both("以下内容包含服务器密钥", "this holds the server's key"), file=sys.stderr)
    else:
        snippet = started(options.print_config, own_command(), ("mcp", *_words(options)))
    print(json.dumps(snippet, ensure_ascii=False, indent=2))
    return 0


def _words(options: argparse.Namespace) -> Iterable[str]:
    """The options of this command, so that they mean the same from any folder."""
    if options.only is None or options.home is not None:
        yield from ("--home", str(home_folder(argparse.Namespace(home=options.home or Path())).resolve()))
    if options.only is not None:
        yield from ("--only", ",".join(sorted(options.only)))
        for name in ("plugins", "root"):
            if (path := getattr(options, name)) is not None:
                yield from (f"--{name}", str(path.resolve()))
        for name in ("allow_external_src", "ignore_plugin_load_error"):
            if getattr(options, name):
                yield "--" + name.replace("_", "-")
