"""The ``vcp`` command: its arguments are read here, and what ends a command becomes an exit code."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from app import __version__
from app.cli.options import EXIT_FAILED, EXIT_USAGE
from app.errors import VcpError, both

COMMANDS = (
    *("serve", "init", "check", "keys", "nodes", "backup", "restore", "tool"),
    *("mcp", "mcp-check", "modular", "approve", "demo", "node", "memory"),
)
"""The commands, in the order of the help. Each has a module of its name, which adds its own arguments."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``vcp`` command; exits with 0, 1 (the work failed) or 2 (it could not be begun)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks Chinese letters must not end the program
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    options = _parser(words).parse_args(words)
    try:
        code = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read what we print, such as head, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_FAILED
    except VcpError as error:
        print(f"vcp: {error.message}", file=sys.stderr)
        code = EXIT_USAGE
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = EXIT_FAILED
    sys.exit(code)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command that ``words`` name, without the time that loading the others takes; else of all."""
    parser = argparse.ArgumentParser(
        prog="vcp", description=both("兼容 OpenAI 的聊天中间件服务器", "OpenAI-compatible chat middleware server")
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in words[:1] if words and words[0] in COMMANDS else COMMANDS:
        import_module(f"app.cli.{name.replace('-', '_')}").add_to(commands)
    return parser
