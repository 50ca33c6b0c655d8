"""``vcp tool``: run one tool and print its result."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time

from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, configured, home_option, run
from app.config.keys import server_key
from app.errors import ConfigError, NotFoundError, both
from app.extend import CallContext, Door, ErrorKind, ToolCall, UpstreamTarget
from app.protocol.json_text import pretty_json
from app.protocol.timestamps import iso_millis
from app.services import Services
from app.tools.rendering import result_object


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    parser = commands.add_parser(
        "tool", parents=[home_option()], help=both("运行一个工具并打印结果", "run one tool and print its result")
    )
    parser.add_argument("name", metavar="NAME", help=both("工具名，即 tool_name", "the tool, as in tool_name"))
    parser.add_argument("fields", nargs="*", metavar="key=value", help=both("参数", "its arguments"))
    parser.set_defaults(run=_tool)


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
    config = configured(options, logging.WARNING)  # who calls one tool wants its result and nothing else
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

    return run(work())
