"""``vcp tool``: run one tool and print its result, through the server that owns the home if there is one (D88)."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

from app.cli.approval_questions import ask_here
from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, NoModel, configured, home_option, reader, run
from app.cli.terminal import printable
from app.config.keys import server_key
from app.config.snapshot import Config
from app.errors import ConfigError, NotFoundError, both
from app.extend import CallContext, Door, ErrorKind, Json, ToolCall
from app.home.lock import Owner, owner_of
from app.home.running_approvals import waiting_approvals
from app.home.running_server import call_through, request_text
from app.protocol.arguments import fold
from app.protocol.call_depth import check_depth, environment_depth
from app.protocol.json_text import pretty_json
from app.protocol.timestamps import iso_millis
from app.tools.rendering import result_object
from app.tools.router import Router, no_such_tool

if TYPE_CHECKING:
    from app.services import Services

PATIENCE_SECONDS = 1.0
"""How long the server may be silent before the command looks whether the call waits for approval."""


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("运行一个工具并打印结果", "run one tool and print its result")
    more = both("如果该安装目录有服务器在运行，则由它执行", "a server that runs in this home does it, if there is one")
    parser = commands.add_parser("tool", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument("name", metavar="NAME", help=both("工具名，即 tool_name", "the tool, as in tool_name"))
    parser.add_argument("fields", nargs="*", metavar="key=value", help=both("参数", "its arguments"))
    parser.set_defaults(run=_tool)


def _tool(options: argparse.Namespace) -> int:
    arguments: dict[str, str] = {}
    for field in options.fields:
        name, equals, value = field.partition("=")
        if not equals or not name:
            raise ConfigError(both(f"'{field}' 不是 key=value 的形式", f"'{field}' is not key=value"))
        arguments[name] = value
    config = configured(reader(options), logging.WARNING)  # who calls one tool wants its result and nothing else
    depth = environment_depth(os.environ)
    check_depth(depth, config.settings.max_call_depth)
    key = server_key(config).value
    owner = owner_of(config.home)
    if owner is not None:
        return run(_through(owner, key, options.name, arguments, depth))
    return run(_alone(config, key, options.name, arguments, depth))


async def _through(owner: Owner, key: str, tool: str, arguments: dict[str, str], depth: int) -> int:
    _end_on_sigterm()
    calling = asyncio.ensure_future(call_through(owner, key, request_text(tool, arguments), depth=depth))
    try:
        answered, _ = await asyncio.wait({calling}, timeout=PATIENCE_SECONDS)
        if not answered:
            await _tell_of_waiting(owner, key, tool)
        answer = await calling
    except asyncio.CancelledError:
        calling.cancel()
        print(both("服务器会继续执行该工具", "the server goes on with the tool"), file=sys.stderr)
        raise
    value = answer.value
    if not answer.ok and isinstance(value, dict) and value.get("plugin_execution_error") == no_such_tool(tool):
        raise NotFoundError(no_such_tool(tool))
    return _tell(value, ok=answer.ok)


async def _tell_of_waiting(owner: Owner, key: str, tool: str) -> None:
    """Say on stderr that the call waits for a person's word, if one of this tool does (spec 7.6)."""
    with suppress(ConfigError):  # a server that does not tell; what the call meets is told by the call
        for request in await waiting_approvals(owner, key):
            if fold(str(request.get("toolName"))) == fold(tool):
                which = printable(str(request["requestId"]))
                print(
                    both(f"等待批准：vcp approve {which}", f"it waits for approval: vcp approve {which}"),
                    file=sys.stderr,
                    flush=True,
                )


async def _alone(config: Config, key: str, tool: str, arguments: dict[str, str], depth: int) -> int:
    from app.services import Services  # takes longer to load than a call through a running server

    _end_on_sigterm()
    services = Services(config, key, resolver=NoModel(), owns_home=False)
    password = arguments.pop("tool_password", None) if config.settings.vcp_tool_code else None
    call = ToolCall(
        id=services.new_id("call"),
        tool=tool,
        arguments=arguments,
        texts=arguments,
        password=password,
        maid=arguments.get("maid") or None,
    )
    ask_here(services)
    found = services.router.find(tool)
    works_on = found is not None and "asynchronous" in found.spec.labels
    async with AsyncExitStack() as stack:
        if works_on:  # its process calls back when the work is done, so somebody has to listen for as long
            from app.web.app import create_app
            from app.web.server import serve

            services.served_at(await stack.enter_async_context(serve(create_app(services))))
        else:
            await stack.enter_async_context(services.running_parts())
        context = CallContext(turn_id=call.id, door=Door.COMMAND_LINE, depth=depth)
        result = await services.router.call(call, context)
        if works_on and result.ok:
            return await _told_in_the_end(services, result_object(call, result, iso_millis(time.time(), config.zone)))
    if result.error_kind is ErrorKind.UNKNOWN_TOOL:
        raise NotFoundError(f"{result.message}; {both('现有', 'there are')}: {_callable_names(services.router)}")
    return _tell(result_object(call, result, iso_millis(time.time(), config.zone)), ok=result.ok)


def _callable_names(router: Router) -> str:
    return ", ".join(listed.name for listed in router.listed()) or "-"


async def _told_in_the_end(services: Services, value: Json) -> int:
    """Print the first answer at once and wait for the work behind it; it would end with this command."""
    ended = _tell(value, ok=True)
    sys.stdout.flush()
    if services.plugins.background.living():
        doing = both(
            "任务在后台继续，完成后命令结束；Ctrl-C 放弃", "it works on; this ends when it is done, Ctrl-C gives up"
        )
        print(doing, file=sys.stderr)
        await services.plugins.background.settle()
    return ended


def _end_on_sigterm() -> None:
    """SIGTERM cancels like Ctrl-C, so that the tool's process ends too."""
    if (task := asyncio.current_task()) is not None and sys.platform != "win32":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _tell(value: Json, *, ok: bool) -> int:
    print(pretty_json(value))
    return EXIT_OK if ok else EXIT_FAILED
