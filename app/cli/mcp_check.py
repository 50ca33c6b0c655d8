"""``vcp mcp-check``: start MCP servers of ``mcp_servers.json`` in the foreground and tell what is wrong with them."""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.cli.mcp_sign_in import accept, sign_in, sign_out
from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, configured, home_option, reader, run
from app.cli.terminal import printable
from app.config.problem import Problem
from app.config.snapshot import Config
from app.errors import ConfigError, VcpError, both
from app.extend import Json
from app.mcp.client.changed_tool import ChangedTool
from app.mcp.client.consent import Consents
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.servers import McpServers
from app.mcp.client.servers_file import FILE_NAME, NO_SERVERS, ServersFileError, ServerTable, read_servers_file
from app.mcp.client.status import ServerState, ServerStatus
from app.observe.bus import EventBus
from app.services.in_force import InForce
from app.services.mcp_client import checked_servers

AT_ONCE = 8
MAX_LISTED = 500
"""Most tools of a server that are listed."""

SHOWN_CHARS = 100


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one server: ``facts`` are lines about one that works."""

    status: ServerStatus
    seconds: float
    facts: tuple[str, ...] = ()
    error: str = ""
    details: str = ""


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("检查 MCP 服务器", "check MCP servers")
    more = both(
        "在前台启动 mcp_servers.json 中的服务器，显示真正的错误；不给名称则检查全部。退出码：0 正常，1 有错误",
        "starts servers of mcp_servers.json in the foreground and shows the real error; all of them without a name. "
        "Exit code: 0 they work, 1 one does not",
    )
    parser = commands.add_parser("mcp-check", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument("name", metavar="NAME", nargs="?", help=both("服务器名", "the server"))
    parser.add_argument(
        "--accept",
        action="store_true",
        help=both("确认此服务器已变更的工具", "consent to the tools of this server that have changed"),
    )
    parser.add_argument("--sign-in", action="store_true", help=both("登录此服务器（OAuth）", "sign in there (OAuth)"))
    parser.add_argument(
        "--sign-out", action="store_true", help=both("删除此服务器的登录信息", "discard what is kept of a sign-in")
    )
    parser.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    if options.accept and options.name is None:
        raise ConfigError(both("--accept 需要服务器名", "--accept needs the name of a server"))
    if (options.sign_in or options.sign_out) and options.name is None:
        raise ConfigError(both("--sign-in 与 --sign-out 需要服务器名", "--sign-in and --sign-out need a server's name"))
    config = configured(reader(options), logging.ERROR)  # what is less is shown below, and for the server asked about
    table, problems = _file(config)
    if options.name is not None:
        problems = tuple(problem for problem in problems if _is_about(problem, options.name))
        if options.name not in table.entries:
            return _not_there(options.name, table, problems)
    if options.sign_in or options.sign_out:
        return run((sign_in if options.sign_in else sign_out)(config.home, table.entries[options.name]))
    for problem in problems:
        print(printable(str(problem)))
    code = run(_checked(config, table, options.name, accepting=options.accept))
    return EXIT_FAILED if table.lost and options.name is None else code


def _file(config: Config) -> tuple[ServerTable, tuple[Problem, ...]]:
    """The servers of the home, and what is odd in their file. Raises ConfigError for one that cannot be read."""
    try:
        return read_servers_file(config.home / FILE_NAME, config.environ)
    except FileNotFoundError:
        return NO_SERVERS, ()
    except ServersFileError as error:
        raise ConfigError(str(Problem(FILE_NAME, error.line, "", error.message))) from error


def _is_about(problem: Problem, name: str) -> bool:
    return problem.key == name or problem.key.startswith(f"{name}.")


def _not_there(name: str, table: ServerTable, problems: Sequence[Problem]) -> int:
    """Say why a server is none: its entry is wrong, or there is no entry. Raises ConfigError for the latter."""
    if not problems:
        have = ", ".join(table.entries) or "-"
        raise ConfigError(
            both(f"没有名为 {name} 的 MCP 服务器；现有：{have}", f"no MCP server is called {name}; there are: {have}")
        )
    for problem in problems:
        print(printable(str(problem)))
    return EXIT_FAILED


async def _checked(config: Config, table: ServerTable, name: str | None, *, accepting: bool) -> int:
    events = EventBus()
    consents = Consents(config.home, events)
    servers = checked_servers(InForce(config, "", owns_home=False), events, consents)
    await servers.start()
    try:
        known = {status.name: status for status in servers.states()}
        if name is None:
            return await _all(servers, list(known.values()), config)
        return await _one(servers, known[name], table.entries[name], consents, config if accepting else None)
    finally:
        await servers.stop()


async def _all(servers: McpServers, known: Sequence[ServerStatus], config: Config) -> int:
    places = asyncio.Semaphore(AT_ONCE)

    async def in_turn(status: ServerStatus) -> Checked:
        async with places:
            return await _tried(servers, status)

    results = await asyncio.gather(*(in_turn(status) for status in known))
    if not results:
        file = printable(str(config.home / FILE_NAME))
        print(both(f"{file} 中没有 MCP 服务器", f"there are no MCP servers in {file}"))
    width = max((len(result.status.name) for result in results), default=0)
    for result in results:
        status = result.status
        told = result.error or both(f"{status.tools} 个工具", f"{status.tools} tools")
        print(f"{printable(status.name):{width}}  {status.state.value:13}  {result.seconds:5.1f} s  {printable(told)}")
    return EXIT_FAILED if any(result.error for result in results) else EXIT_OK


async def _one(
    servers: McpServers, status: ServerStatus, entry: ServerEntry, consents: Consents, accepting: Config | None
) -> int:
    print(
        f"{both('服务器', 'server')}: {printable(status.name)} ({status.kind}, {printable(status.shown)})", flush=True
    )
    result = await _tried(servers, status)
    status = result.status
    print(f"{both('状态', 'state')}: {status.state.value}, {result.seconds:.1f} s")
    if result.error:
        print(f"{both('错误', 'error')}: {printable(result.error)}")
        for line in result.details.splitlines():
            if result.error not in line:
                print(f"  {printable(line)}")
        if status.kind == "stdio" and status.state is ServerState.FAILED and not result.details:
            print(
                both(
                    "它没有任何输出；npx、uvx 首次下载可能较慢，请再试一次",
                    "it said nothing; a first download by npx or uvx may take longer: try again",
                )
            )
        if status.state is ServerState.SIGN_IN:
            print(_way_in(entry))
        return EXIT_FAILED
    for line in result.facts:
        print(printable(line))
    changed = await consents.changes(status.name)
    for line in _changes(changed):
        print(printable(line))
    if changed and accepting is not None:
        accepted = await accept(accepting, consents, status.name, {tool.name: tool.digest for tool in changed})
        print(f"{both('已确认', 'accepted')}: {printable(', '.join(accepted))}")
    elif changed:
        print(both("要使用新的描述", "to use them as they are now") + f": vcp mcp-check {status.name} --accept")
    return EXIT_OK


def _way_in(entry: ServerEntry) -> str:
    """What helps with a server that wants to know who we are."""
    from app.mcp.client.oauth.sign_ins import may_sign_in  # the SDK, which is there by now

    if may_sign_in(entry):
        return both("请登录", "sign in") + f": vcp mcp-check {entry.name} --sign-in"
    return both("请检查 headers 中的密钥", "look at the key in its headers") + f": {FILE_NAME}"


async def _tried(servers: McpServers, status: ServerStatus) -> Checked:
    began = time.monotonic()
    if status.state is ServerState.DISABLED:
        return Checked(status, 0.0)
    try:
        tools = await servers.tools_of(status.name, refresh=True)
        facts = tuple(await _facts(servers, status.name, tools))
        error = details = ""
    except VcpError as fault:
        facts, error, details = (), fault.message, getattr(fault, "details", "")
    seconds = time.monotonic() - began
    now = next(one for one in servers.states() if one.name == status.name)
    return Checked(now, seconds, facts, error, details)


async def _facts(servers: McpServers, name: str, tools: Sequence[Json]) -> list[str]:
    async with servers.client(name) as client:
        info = client.server_info
        who = f"{info.name} {info.version}" if info is not None else "-"
        has = client.server_capabilities.model_dump(by_alias=True, exclude_none=True)
        lines = [
            f"{both('协议', 'protocol')}: {client.protocol_version}, {who}",
            f"{both('能力', 'capabilities')}: {', '.join(has) or '-'}",
            f"{both('工具', 'tools')}: {len(tools)}",
        ]
    for tool in tools[:MAX_LISTED]:
        about = str(tool.get("title") or tool.get("description") or "").strip().partition("\n")[0]
        lines.append(f"  {tool['name']}" + (f" - {about[:SHOWN_CHARS]}" if about else ""))
    if len(tools) > MAX_LISTED:
        more = len(tools) - MAX_LISTED
        lines.append("  " + both(f"……另有 {more} 个", f"… {more} more"))
    return lines


def _changes(changed: Iterable[ChangedTool]) -> Iterable[str]:
    for tool in changed:
        yield f"{both('已变更，待确认', 'changed, waits for consent')}: {tool.name}"
        for line in tool.diff().splitlines():
            yield f"  {line}"
