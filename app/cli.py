"""The commands: ``vcp serve``, ``vcp demo``, ``vcp tool``."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from app import __version__
from app.config.keys import ServerKey, check_bind, server_key
from app.config.snapshot import Config, load
from app.demo.upstream import create_demo
from app.errors import ConfigError, NotFoundError, VcpError, both
from app.extend import CallContext, Door, ErrorKind, ToolCall, UpstreamTarget
from app.observe.lines import LineFormatter
from app.observe.server_log import LAYOUT, LOG_FOLDER, ServerLog, log_limits
from app.protocol.json_text import pretty_json
from app.protocol.loopback import is_loopback
from app.protocol.timestamps import iso_millis
from app.services import Services, make_home
from app.tools.rendering import result_object
from app.upstream.targets import SingleUpstream
from app.web.app import create_app
from app.web.server import serve, serve_until_signal

log = logging.getLogger(__name__)

DEMO_PORT = 6010
DEMO_KEY = "demo"
MAX_PORT = 65_535

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``vcp`` command; exits with 0, 1 (the work failed) or 2 (it could not be begun)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks Chinese letters must not end the program
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        code = options.run(options)
    except VcpError as error:
        print(f"vcp: {error.message}", file=sys.stderr)
        code = EXIT_USAGE
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = EXIT_FAILED
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vcp", description=both("兼容 OpenAI 的聊天中间件服务器", "OpenAI-compatible chat middleware server")
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    home = argparse.ArgumentParser(add_help=False)
    home.add_argument(
        "--home",
        type=Path,
        default=Path(),
        metavar="DIR",
        help=both(
            "安装目录，默认为当前目录",
            "installation root: config.env, Plugin/, Agent/, TVStxt/, dailynote/ (default: the working directory)",
        ),
    )
    serve_command = commands.add_parser("serve", parents=[home], help=both("启动服务器", "start the server"))
    serve_command.add_argument("--host", help=both("监听地址", "address to listen on (HOST in config.env)"))
    serve_command.add_argument("--port", type=_port, help=both("监听端口", "port to listen on (PORT in config.env)"))
    serve_command.set_defaults(run=_serve)
    demo = commands.add_parser(
        "demo", help=both("只启动演示模型", "start only the demo model, an OpenAI API of its own")
    )
    demo.add_argument("--host", default="127.0.0.1")
    demo.add_argument("--port", type=_port, default=DEMO_PORT)
    demo.set_defaults(run=_demo)
    tool = commands.add_parser(
        "tool", parents=[home], help=both("运行一个工具并打印结果", "run one tool and print its result")
    )
    tool.add_argument("name", metavar="NAME", help=both("工具名，即 tool_name", "the tool, as in tool_name"))
    tool.add_argument("fields", nargs="*", metavar="key=value", help=both("参数", "its arguments"))
    tool.set_defaults(run=_tool)
    return parser


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(
            both(f"'{text}' 不是 0 到 {MAX_PORT} 的端口号", f"'{text}' is not a port, a number from 0 to {MAX_PORT}")
        )
    return int(text)


def _run(work: Coroutine[Any, Any, int]) -> int:
    """Run on the fastest event loop there is."""
    factory = None
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def _configured(options: argparse.Namespace, level: int = logging.INFO, *, on_disk: bool = False) -> Config:
    home: Path = options.home
    if not home.is_dir():
        raise ConfigError(both(f"--home {home} 不是目录", f"--home {home} is not a folder"))
    given = {"HOST": getattr(options, "host", None), "PORT": getattr(options, "port", None)}
    config = load(home.absolute(), os.environ, {key: str(value) for key, value in given.items() if value is not None})
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s", config.zone))
    logging.basicConfig(level=logging.DEBUG if config.settings.debug_mode else level, handlers=[handler])
    if on_disk and config.settings.server_log:
        logging.getLogger().addHandler(_server_log(config))
    for name in ("httpx", "httpcore", "asyncio", "uvicorn", "watchfiles"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for problem in config.problems:
        log.warning("%s", problem)
    make_home(config.home)
    return config


def _server_log(config: Config) -> ServerLog:
    written = ServerLog(config.home / LOG_FOLDER, lambda: log_limits(config.settings), config.zone)
    written.setFormatter(LineFormatter(LAYOUT, config.zone))
    return written


def _serve(options: argparse.Namespace) -> int:
    config = _configured(options, on_disk=True)
    check_bind(config)
    return _run(_serving(config, server_key(config)))


async def _serving(config: Config, key: ServerKey) -> int:
    settings = config.settings
    async with AsyncExitStack() as stack:
        resolver = None
        if not settings.api_url:
            demo_address = await stack.enter_async_context(serve(create_demo(zone=config.zone)))
            resolver = SingleUpstream(demo_address, DEMO_KEY)
        services = Services(config, key.value, resolver=resolver)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, ServerLog):
                handler.follow(lambda: log_limits(services.settings))
        await serve_until_signal(
            create_app(services),
            settings.host,
            settings.port,
            settings.shutdown_seconds,
            lambda address: _announce(config, key, address),
        )
    return EXIT_OK


def _announce(config: Config, key: ServerKey, address: str) -> None:
    """Tell a person at the terminal how to use the server; a key only where D42 allows it."""
    lines = [
        "",
        f"  VCP server {__version__} is running; Ctrl-C stops it. / 服务已启动，按 Ctrl-C 停止。",
        "",
        f"  base URL / 接口地址   {address}/v1",
    ]
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
    if not config.settings.api_url:
        unusable = bool(config.environ.get("API_URL", "").strip())
        missing = "The API_URL cannot be used, see the warning" if unusable else "No API_URL is configured"
        missing_zh = "API_URL 无法使用，见警告" if unusable else "未配置 API_URL"
        lines += [
            "",
            f"  {missing}: answers come from the built-in demo model, which follows fixed rules.",
            "  For a real model copy config.env.example to config.env and set API_URL and API_Key.",
            f"  {missing_zh}：当前由内置演示模型按固定规则作答。",
            "  要使用真实模型，请把 config.env.example 复制为 config.env，并填写 API_URL 和 API_Key。",
        ]
    request = f"{address}/v1/models -H {bearer}"  # which models a configured service has is not known here
    if not config.settings.api_url:
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


def _demo(options: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)

    def announce(address: str) -> None:
        print(
            f"demo model: API_URL={address} (any key, Ctrl-C stops it) / 演示模型，任意密钥，按 Ctrl-C 停止", flush=True
        )

    async def work() -> int:
        await serve_until_signal(create_demo(), options.host, options.port, 3, announce)
        return EXIT_OK

    return _run(work())


class _NoModel:
    """The upstream of a command that runs tools only; it needs no API_URL."""

    def resolve(self, model: str) -> UpstreamTarget:
        raise ConfigError(both("此命令不调用模型", "this command asks no model"))


def _tool(options: argparse.Namespace) -> int:
    arguments: dict[str, str] = {}
    for field in options.fields:
        name, equals, value = field.partition("=")
        if not equals or not name:
            raise ConfigError(both(f"'{field}' 不是 key=value 的形式", f"'{field}' is not key=value"))
        arguments[name] = value
    config = _configured(options, logging.WARNING)  # who calls one tool wants its result and nothing else
    key = server_key(config)

    async def work() -> int:
        if (task := asyncio.current_task()) is not None and sys.platform != "win32":
            # Cancelled like by Ctrl-C, so that the tool's process ends too.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        services = Services(config, key.value, resolver=_NoModel(), owns_home=False)
        password = arguments.pop("tool_password", None) if config.settings.vcp_tool_code else None
        call = ToolCall(
            id=services.new_id("call"),
            tool=options.name,
            arguments=arguments,
            texts=arguments,
            password=password,
            maid=arguments.get("maid") or None,
        )
        async with services.running_parts():
            result = await services.router.call(call, CallContext(turn_id=call.id, door=Door.COMMAND_LINE))
        if result.error_kind is ErrorKind.UNKNOWN_TOOL:
            raise NotFoundError(
                f"{result.message}; {both('现有', 'there are')}: {', '.join(sorted(services.router.specs())) or '-'}"
            )
        print(pretty_json(result_object(call, result, iso_millis(time.time(), config.zone))))
        return EXIT_OK if result.ok else EXIT_FAILED

    return _run(work())


if __name__ == "__main__":
    main()
