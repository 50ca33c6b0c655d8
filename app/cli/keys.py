"""``vcp keys``: which keys an installation has, and new ones."""

from __future__ import annotations

import argparse
import os
import sys

from app.cli.options import EXIT_FAILED, EXIT_OK, Commands, home_folder, home_option
from app.config.dotenv import parse_values
from app.config.keys import replace_key, strong_value
from app.config.snapshot import load
from app.errors import both
from app.home.known_keys import MEANINGS, OWN_SECRETS, KnownKey, known_keys
from app.home.lock import owner_of
from app.plugins.discovery import discover
from app.tools.auth_code import CODE_FILE, AuthCode

SHOWN_CHARACTERS = 3
LONG_ENOUGH_TO_SHOW_SOME = 20


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("查看或更换密钥", "show the keys, make new ones")
    parser = commands.add_parser("keys", parents=[home_option()], help=text, description=text)
    parser.add_argument("--show", action="store_true", help=both("显示完整的密钥", "print the values in full"))
    parser.set_defaults(run=_keys)
    actions = parser.add_subparsers(metavar="new | code")
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


def _keys(options: argparse.Namespace) -> int:
    config = load(home_folder(options), os.environ)
    found = known_keys(config, discover((config.home / "Plugin",), parse_values), os.environ)
    for key in found:
        shown = key.value if options.show else _masked(key)
        print(f"{key.name:<14} {shown or '-'}")
        source = key.source or both("未设置", "not set")
        print(f"{'':<14} {MEANINGS[key.name]}; {source}")
    return EXIT_OK


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
