"""``vcp keys``: which keys an installation has, and new ones."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime, tzinfo

from app.cli.nodes import join_command, join_hints
from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, home_folder, home_option
from app.cli.terminal import printable
from app.config.dotenv import parse_values
from app.config.keys import replace_key, strong_value
from app.config.snapshot import load
from app.errors import both
from app.home.known_keys import OWN_SECRETS, KnownKey, known_keys
from app.home.lock import owner_of
from app.hub.nodes.key_file import (
    NodeKeyFile,
    limit_node_tools,
    make_node_key,
    read_node_keys,
    revoke_node_key,
)
from app.plugins.discovery import discover
from app.tools.auth_code import CODE_FILE, AuthCode

SHOWN_CHARACTERS = 3
LONG_ENOUGH_TO_SHOW_SOME = 20
SHOWN_TOOLS = 12


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("查看或更换密钥", "show the keys, make new ones")
    parser = commands.add_parser("keys", parents=[home_option()], help=text, description=text)
    parser.add_argument("--show", action="store_true", help=both("显示完整的密钥", "print the values in full"))
    parser.set_defaults(run=_keys)
    actions = parser.add_subparsers(metavar="new | code | node")
    new = actions.add_parser(
        "new",
        parents=[home_option(argparse.SUPPRESS)],
        help=both("更换自动生成的密钥，或生成其他密钥", "replace the generated key, or make values for other ones"),
        description=both(
            "不带 NAME 时更换自动生成的 Key；带 NAME 时打印可写入 config.env 的新值",
            "Without NAME the generated Key is replaced; with NAMEs lines for config.env are printed, each with a new "
            "value.",
        ),
    )
    # argparse looks for the empty list among the choices when no name is given.
    new.add_argument("names", nargs="*", choices=[[], *OWN_SECRETS], metavar="NAME", help=", ".join(OWN_SECRETS))
    new.set_defaults(run=_new)
    told = both(
        "显示当前的用户验证码（VCPToolCode 和管理员工具使用，每小时更换）",
        "print the code of the hour, which VCPToolCode and administrators' tools ask for",
    )
    code = actions.add_parser("code", parents=[home_option(argparse.SUPPRESS)], help=told, description=told)
    code.set_defaults(run=_code)
    told = both("为一个节点生成、更改或撤销密钥", "make, change or take back the key of a node")
    node = actions.add_parser(
        "node",
        parents=[home_option(argparse.SUPPRESS)],
        help=told,
        description=both(
            "不带选项时生成新密钥，只显示这一次，旧密钥随即失效。服务器运行时也可使用，立即生效",
            "Without options a new key is made and shown this once; the one that the node had counts no longer. Works "
            "while the server runs, and counts at once.",
        ),
    )
    node.add_argument("name", metavar="NAME", help=both("节点名称", "name of the node"))
    node.set_defaults(run=_node)
    change = node.add_mutually_exclusive_group()
    change.add_argument(
        "--tools",
        type=_tools,
        metavar="A,B",
        help=both(
            "只允许提供这些工具；节点已有密钥时只改名单，密钥不变",
            "the tools that it may bring, no others; of a node that has a key only the list changes",
        ),
    )
    change.add_argument(
        "--all-tools", action="store_true", help=both("允许提供任何工具", "it may bring any tool; the key stays")
    )
    change.add_argument(
        "--revoke",
        action="store_true",
        help=both("撤销密钥，并断开该节点", "take the key back and end the node's connection"),
    )


def _keys(options: argparse.Namespace) -> int:
    config = load(home_folder(options), os.environ)
    found = known_keys(config, discover((config.home / "Plugin",), parse_values), os.environ)
    for key in found:
        shown = key.value if options.show else _masked(key)
        print(f"{key.name:<16} {shown or '-'}")
        source = key.source or both("未设置", "not set")
        print(f"{'':<16} {key.meaning}; {source}")
    nodes = read_node_keys(config.home)
    for line in _node_lines(nodes, config.zone):
        print(line)
    for problem in nodes.problems:
        print(f"node_keys.json: {printable(problem)}", file=sys.stderr)
    return EXIT_OK


def _node_lines(nodes: NodeKeyFile, zone: tzinfo) -> Iterator[str]:
    """The nodes with a key of their own; of keys there are only digests, so none can be shown."""
    if nodes.keys:
        yield f"\n{both('节点', 'nodes')}:"
    for name, entry in sorted(nodes.keys.items()):
        made = datetime.fromtimestamp(entry.made, zone).strftime("%Y-%m-%d %H:%M")
        state = both("已撤销", "revoked") if entry.revoked else f"{both('工具', 'tools')}: {_listed(entry.tools)}"
        yield f"  {name:<14} {both('生成于', 'made')} {made}, sha256:{entry.fingerprint}…; {state}"


def _listed(tools: tuple[str, ...] | None) -> str:
    if not tools:
        return both("任何", "any") if tools is None else both("无", "none")
    shown = ", ".join(map(printable, tools[:SHOWN_TOOLS]))
    return f"{shown}, … (+{len(tools) - SHOWN_TOOLS})" if len(tools) > SHOWN_TOOLS else shown


def _masked(key: KnownKey) -> str:
    if not key.value:
        return ""
    begin = key.value[:SHOWN_CHARACTERS] if len(key.value) >= LONG_ENOUGH_TO_SHOW_SOME else ""
    count = len(key.value)
    return f"{begin}… ({both(f'{count} 个字符', f'{count} characters')})"


def _new(options: argparse.Namespace) -> int:
    home = home_folder(options)
    if options.names:
        print(both("请将以下各行写入 config.env：", "Put these lines into config.env:"), file=sys.stderr)
        for name in dict.fromkeys(options.names):
            print(f"{name}={strong_value()}")
        return EXIT_OK
    key = replace_key(load(home, os.environ))
    print(both(f"新密钥已写入 {key.path}", f"a new key is in {key.path}"))
    if options.show:
        print(key.value)
    if (owner := owner_of(home)) is not None:
        print(
            both(
                f"正在运行的服务器 {owner} 在重启前仍使用旧密钥",
                f"the server that runs in this home goes on with the old key until it is restarted: {owner}",
            ),
            file=sys.stderr,
        )
    return EXIT_OK


def _code(options: argparse.Namespace) -> int:
    home = home_folder(options)
    code = AuthCode(home)()
    if code is None:
        missing = both(
            "没有验证码；服务器启动时由插件 UserAuth 生成（RunStaticPlugins=true）",
            "there is no code; the plugin UserAuth makes one when the server starts (RunStaticPlugins=true)",
        )
        print(f"{home / CODE_FILE}: {missing}", file=sys.stderr)
        return EXIT_FAILED
    print(code)
    return EXIT_OK


def _tools(text: str) -> tuple[str, ...]:
    """Names out of the command line; none at all is a list too."""
    return tuple(name.strip() for name in text.replace("，", ",").split(",") if name.strip())


def _node(options: argparse.Namespace) -> int:
    home, name = home_folder(options), options.name
    if options.revoke:
        revoke_node_key(home, name)
        print(both(f"节点 {name} 的密钥已撤销", f"the key of node {name} is taken back"))
        return EXIT_OK
    settings = load(home, os.environ).settings  # before anything is made: a key that cannot be shown is lost
    known = read_node_keys(home).keys.get(name)
    if known is not None and not known.revoked and (options.tools is not None or options.all_tools):
        limit_node_tools(home, name, options.tools)
        print(f"{name}: {both('可提供的工具', 'tools that it may bring')}: {_listed(options.tools)}")
        return EXIT_OK
    key = make_node_key(home, name, time.time(), tools=options.tools, any_tool=options.all_tools)
    hints = [
        both(f"节点 {name} 的密钥，仅显示这一次：", f"the key of node {name}, shown this once:"),
        *([both("旧密钥已失效", "the key that it had counts no longer")] if known is not None else []),
        both("在另一台机器上运行：", "on the other machine:") + f"  {join_command(name, settings, owner_of(home))}",
        *join_hints(settings),
    ]
    for hint in hints:
        print(hint, file=sys.stderr)
    print(key)
    return EXIT_OK
