"""``vcp node``: this machine serves its plugins to a main server (spec 6.4)."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import random
import re
import signal
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from app import __version__
from app.cli.options import (
    EXIT_OK,
    Commands,
    NoModel,
    home_folder,
    home_option,
    log_as_configured,
    log_to_screen,
    prepare_home,
    run,
)
from app.cli.serve import YOUNG_OBJECTS, log_to_disk
from app.config.keys import server_key
from app.config.small_file import read_small
from app.config.snapshot import Config, load
from app.errors import ConfigError, both
from app.home.lock import Ownership, own_home
from app.node.main_server import MainServer, main_server
from app.node.node import Node, NodeIdentity
from app.node.pauses import Pauses
from app.observe.server_log import ServerLog, log_limits
from app.services import Services
from app.web.app import create_app
from app.web.server import serve

KEY_VARIABLE = "VCP_KEY"
"""The environment variable with the key; the commands of the tools do not get it."""

MAX_KEY_BYTES = 4096
MAX_NAME_CHARS = 100
_BAD_NAME = re.compile(r"[#\x00-\x1f\x7f/\\]")

log = logging.getLogger(__name__)


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("把本机插件提供给一台主服务器", "serve this machine's plugins to a main server")
    parser = commands.add_parser("node", parents=[home_option()], help=text, description=text)
    parser.add_argument(
        "--url",
        help=both(
            "主服务器地址（config.env 的 Main_Server_URL）",
            "the main server, such as wss://chat.example.com (Main_Server_URL in config.env)",
        ),
    )
    parser.add_argument(
        "--name",
        help=both(
            "节点名称（ServerName），默认为主机名", "this node's name (ServerName in config.env); else the machine's"
        ),
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help=both(
            f"存放密钥的文件；否则用环境变量 {KEY_VARIABLE} 或 config.env 的 VCP_Key",
            f"file with the key; else {KEY_VARIABLE} of the environment, or VCP_Key in config.env",
        ),
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help=both("附加信任的证书 (PEM)（NodeCaFile）", "certificates (PEM) to trust beside the system's (NodeCaFile)"),
    )
    parser.add_argument(
        "--files",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help=both(
            "主服务器可以读取其中文件的目录，可重复；与 NodeFileRoots 合并",
            "folder whose files the main server may ask for; may be repeated, beside NodeFileRoots",
        ),
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="WORD",
        help=both("节点标签，可重复；与 NodeLabels 合并", "label of this node; may be repeated, beside NodeLabels"),
    )
    parser.set_defaults(run=_node)


def _node(options: argparse.Namespace) -> int:
    home = home_folder(options)
    variable = os.environ.get(KEY_VARIABLE, "").strip()
    environ = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    given = {"Main_Server_URL": options.url, "ServerName": options.name, "NodeCaFile": options.ca}
    overrides = {name: str(value) for name, value in given.items() if value is not None}

    def read_config() -> Config:
        return as_node(load(home, environ, overrides))

    config = read_config()
    gc.set_threshold(YOUNG_OBJECTS)
    log_to_screen(config)
    main = main_server(config.settings.main_server_url)
    first_key = node_key(options.key_file, variable, config, main)  # what is missing is told before anything is made
    identity = NodeIdentity(
        name=_name(config.settings.node_name or socket.gethostname()),
        main=main,
        key=lambda: first_key,
        labels=tuple(word for text in options.label for word in text.replace("，", ",").split(",") if word.strip()),
        roots=tuple(_folder(folder) for folder in options.files),
        tls=_tls(config.settings.node_ca_file, home) if main.secure else None,
    )
    with own_home(config.home, "node") as ownership:
        if config.settings.server_log:
            log_to_disk(config)
        prepare_home(config)
        services = Services(config, server_key(config).value, resolver=NoModel(), read_config=read_config)
        services.on_applied(log_as_configured)
        key = current_key(first_key, lambda: node_key(options.key_file, variable, services.config, main))
        return run(_serving(services, replace(identity, key=key), ownership))


async def _serving(services: Services, identity: NodeIdentity, ownership: Ownership) -> int:
    leaving = asyncio.Event()

    def stop() -> None:
        services.stopping.begin(0.0 if leaving.is_set() else services.settings.shutdown_seconds)
        leaving.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows: its event loops have no signal handlers
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
    for handler in logging.getLogger().handlers:
        if isinstance(handler, ServerLog):
            handler.follow(lambda: log_limits(services.settings))
    if identity.main.in_the_clear:
        log.warning(
            "the key and all calls go to %s without encryption; use wss:// where others can listen", identity.main.shown
        )
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(serve(create_app(services)))  # where background plugins call back
        services.served_at(address)
        ownership.tell(address)
        node = Node(services, identity, Pauses(random.random), _tell, time.monotonic)
        print(announcement(identity, len(node.offer().manifests), services.config.home / "Plugin"), flush=True)
        await node.run(leaving)
    return EXIT_OK


def as_node(config: Config) -> Config:
    """The configuration as it holds for a node: it listens on loopback only, and plugins call back to the node itself.

    Both differ from what the same ``config.env`` means to a server.
    """
    return replace(config, settings=config.settings.model_copy(update={"host": "127.0.0.1", "callback_base_url": ""}))


def node_key(file: Path | None, variable: str, config: Config, main: MainServer) -> str:
    """The key for the main server: of the file, the environment, ``VCP_Key``, or the address. Raises ConfigError."""
    if file is not None:
        try:
            key = read_small(file, MAX_KEY_BYTES).decode("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigError(
                both(f"--key-file {file} 无法读取：{why}", f"--key-file {file} cannot be read: {why}")
            ) from None
        if key and not re.search(r"[\x00-\x20\x7f]", key):
            return key
        raise ConfigError(both(f"--key-file {file} 中没有可用的密钥", f"there is no usable key in --key-file {file}"))
    if key := variable or config.settings.socket_key or main.key:
        return key
    raise ConfigError(
        both(
            f"未提供密钥：请设置环境变量 {KEY_VARIABLE}、--key-file，或 config.env 中的 VCP_Key，"
            "其值为主服务器的 VCP_Key 或 Key，或其 vcp keys node 生成的密钥",
            f"there is no key: set {KEY_VARIABLE} in the environment, --key-file, or VCP_Key in config.env to the "
            "main server's VCP_Key or Key, or to a key that it made with vcp keys node",
        )
    )


def current_key(first: str, read: Callable[[], str]) -> Callable[[], str]:
    """Reads the key anew at each connection; one that cannot be read leaves the last."""
    last = first

    def current() -> str:
        nonlocal last
        try:
            last = read()
        except ConfigError as error:
            log.warning("the key cannot be read anew; the last one is used (%s)", type(error).__name__)
        return last

    return current


def _name(text: str) -> str:
    name = text.strip()
    if not name or len(name) > MAX_NAME_CHARS or _BAD_NAME.search(name):
        raise ConfigError(
            both(
                f"节点名称（--name / ServerName）不能为空、超过 {MAX_NAME_CHARS} 个字符或含有 # / \\ 和控制字符",
                f"the node's name (--name, ServerName) must have 1 to {MAX_NAME_CHARS} characters, without # / \\ and "
                "control characters",
            )
        )
    return name


def _folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise ConfigError(both(f"--files {folder} 不是目录", f"--files {folder} is not a folder"))
    return folder.absolute()


def _tls(ca_file: str, home: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file:
        path = home / Path(ca_file).expanduser()
        try:
            context.load_verify_locations(cafile=path)
        except OSError as error:  # ssl.SSLError is one: no certificate in it
            raise ConfigError(
                both(f"无法从 {path} 读取证书（--ca / NodeCaFile）", f"{path} holds no certificates (--ca, NodeCaFile)")
                + f": {error.strerror or error}"
            ) from error
    return context


def _tell(text: str) -> None:
    print(f"  {text}", flush=True)


def announcement(identity: NodeIdentity, tools: int, folder: Path) -> str:
    """What a person at the terminal is told of the node that runs; never the key. ``folder`` holds its plugins."""
    lines = [
        "",
        f"  VCP node {__version__} is running; Ctrl-C stops it. / 节点已启动，按 Ctrl-C 停止。",
        "",
        f"  name / 名称            {identity.name}",
        f"  main server / 主服务器  {identity.main.shown}",
        f"  tools / 工具           {tools}",
        "",
    ]
    if not tools:
        lines += [
            f"  Plugins that you put into {folder} are offered as they come.",
            f"  把插件放入 {folder}，随即提供给主服务器。",
            "",
        ]
    if identity.main.in_the_clear:
        lines += [
            "  No encryption on the way; use wss:// where others can listen. / 连接未加密，公网请使用 wss://。",
            "",
        ]
    return "\n".join(lines)
