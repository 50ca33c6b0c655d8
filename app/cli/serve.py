"""``vcp serve``: start the server."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import shlex
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from app import __version__
from app.cli.findings import found_by_check
from app.cli.options import (
    EXIT_FAILED,
    EXIT_OK,
    Commands,
    home_option,
    log_as_configured,
    log_to_screen,
    port,
    prepare_home,
    reader,
    run,
)
from app.cli.start_again import HandedOn, can_start_again, handed_on, start_again
from app.config.keys import (
    ServerKey,
    admin_password,
    check_bind,
    check_tool_port,
    server_key,
    with_administrator,
)
from app.config.snapshot import Config
from app.demo.upstream import create_demo
from app.errors import both
from app.home.lock import Ownership, own_home
from app.observe.lines import LineFormatter
from app.observe.server_log import LAYOUT, LOG_FOLDER, ServerLog, log_limits
from app.protocol.loopback import is_loopback
from app.services import Services
from app.upstream.targets import SingleUpstream
from app.web.admission import admission
from app.web.app import create_app
from app.web.server import TOOL_SOCKET_SETTINGS, is_free, serve, serve_until_signal
from app.web.tool_socket_port import tool_socket_app

log = logging.getLogger(__name__)

DEMO_KEY = "demo"

AGAIN = -1
"""In place of an exit code: the program starts itself anew."""

YOUNG_OBJECTS = 10_000
"""New objects after which Python looks for cycles among them. Its default of 700 means a look in every request, which
costs a twentieth of it and finds next to nothing; a few requests' worth of cycles may wait."""


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("启动服务器", "start the server")
    parser = commands.add_parser("serve", parents=[home_option()], help=text, description=text)
    parser.add_argument("--host", help=both("监听地址", "address to listen on (HOST in config.env)"))
    parser.add_argument("--port", type=port, help=both("监听端口", "port to listen on (PORT in config.env)"))
    parser.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    before = handed_on(os.environ, os.getpid())
    read_config = reader(options)
    config = read_config()
    gc.set_threshold(YOUNG_OBJECTS)
    log_to_screen(config)
    check_bind(config)
    check_tool_port(config)
    with own_home(config.home, "serve", before.lock) as ownership:
        if config.settings.server_log:
            log_to_disk(config)
        prepare_home(config)
        password = admin_password(config)
        administered = with_administrator(config, password)
        code = run(
            _serving(
                administered,
                server_key(config),
                lambda: with_administrator(read_config(), password),
                ownership,
                before,
            )
        )
        if code != AGAIN:
            return code
        try:
            start_again(ownership, os.environ)
        except OSError as error:
            log.error("the server cannot start itself anew (%s); it ends", error)
    return EXIT_FAILED


async def _serving(
    config: Config, key: ServerKey, read_config: Callable[[], Config], ownership: Ownership, before: HandedOn
) -> int:
    settings = config.settings
    port = before.port if settings.port == 0 and is_free(settings.host, before.port) else settings.port
    async with AsyncExitStack() as stack:
        resolver = None
        if not config.has_model_api:
            demo_address = await stack.enter_async_context(serve(create_demo(zone=config.zone)))
            resolver = SingleUpstream(demo_address, DEMO_KEY)
        services = Services(config, key.value, resolver=resolver, read_config=read_config)
        services.on_applied(log_as_configured)
        services.overview.checked.check_with(partial(found_by_check, config.home, dict(os.environ)))
        for handler in logging.getLogger().handlers:
            if isinstance(handler, ServerLog):
                handler.follow(lambda: log_limits(services.settings))

        def started(address: str) -> None:
            services.served_at(address)
            ownership.tell(address)
            try:
                _announce(config, key, address, tool_address)
            except OSError:
                if before == HandedOn():
                    raise
                log.info("nobody reads what is printed any more")  # a server that started itself anew goes on

        shared = admission(services)
        app, grace = create_app(services, shared), settings.shutdown_seconds
        tool_address = ""
        if settings.tool_socket_port:  # taken at once, before anything is started; nobody is let in until all runs
            tool_app = tool_socket_app(services, shared)
            where = settings.tool_socket_host, settings.tool_socket_port
            tool_address = await stack.enter_async_context(serve(tool_app, *where, settings=TOOL_SOCKET_SETTINGS))
        restart = services.overview.restart
        stop = services.stopping.begin
        signalled = await serve_until_signal(app, settings.host, port, grace, started, stop, restart.on_asked)
    if signalled or not restart.asked:
        return EXIT_OK
    return EXIT_FAILED if restart.exits or not can_start_again() else AGAIN


def log_to_disk(config: Config) -> None:
    """Keep the log in a file of this start too (spec 1.13)."""
    written = ServerLog(config.home / LOG_FOLDER, lambda: log_limits(config.settings), config.zone)
    written.setFormatter(LineFormatter(LAYOUT, config.zone))
    logging.getLogger().addHandler(written)


def _announce(config: Config, key: ServerKey, address: str, tool_address: str) -> None:
    """Tell a person at the terminal how to use the server; a key or password only where D42 and D86 allow it."""
    lines = [
        "",
        f"  VCP server {__version__} is running; Ctrl-C stops it. / 服务已启动，按 Ctrl-C 停止。",
        "",
        f"  base URL / 接口地址   {address}/v1",
    ]
    if tool_address:
        lines.append(f"  tool clients / 工具客户端   ws{tool_address.removeprefix('http')}")
    assignment = None
    if key.path is None:
        lines.append("  key / 密钥            the Key that you configured / 你配置的 Key")
        assignment, bearer = "  KEY='…'", '"Authorization: Bearer $KEY"'
    elif is_loopback(config.settings.host):
        lines.append(f"  key / 密钥            {key.value}")
        bearer = shlex.quote(f"Authorization: Bearer {key.value}")
    else:
        lines.append(f"  key / 密钥            generated, kept in / 已生成，保存于 {key.path}")
        bearer = f'"Authorization: Bearer $(cat {shlex.quote(str(key.path))})"'
    values = config.settings
    if values.admin_username and values.admin_password:
        lines.append(f"  panel / 管理面板      {address}/AdminPanel/")
    if values.admin_password and not config.environ.get("AdminPassword", "").strip():  # a generated one
        lines.append(f"  login / 登录          {values.admin_username}  {values.admin_password}")
    if not config.has_model_api:
        unusable = bool(config.environ.get("API_URL", "").strip())
        missing = "The API_URL cannot be used, see the warning" if unusable else "No API_URL is configured"
        missing_zh = "API_URL 无法使用，见警告" if unusable else "未配置 API_URL"
        lines += [
            "",
            f"  {missing}: answers come from the built-in demo model, which follows fixed rules.",
            "  For a real model open the set-up assistant of the panel, or copy config.env.example to config.env and",
            "  set API_URL and API_Key.",
            f"  {missing_zh}：当前由内置演示模型按固定规则作答。",
            "  要使用真实模型，请打开管理面板的设置助手，或把 config.env.example 复制为 config.env，",
            "  并填写 API_URL 和 API_Key。",
        ]
    request = f"{address}/v1/models -H {bearer}"  # which models a configured service has is not known here
    if not config.has_model_api:
        body = json.dumps({"model": "vcp-demo", "messages": [{"role": "user", "content": "What is 12*7?"}]})
        kind = "-H 'Content-Type: application/json'"
        request = f"{address}/v1/chat/completions -H {bearer} {kind} -d {shlex.quote(body)}"
    lines += [
        "",
        "  Try it / 试一试:",
        *([assignment] if assignment else []),
        f"  curl {request}",
        "",
    ]
    print("\n".join(lines), flush=True)
