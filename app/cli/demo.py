"""``vcp demo``: only the demo model, an OpenAI API of its own."""

from __future__ import annotations

import argparse
import logging
import sys

from app.cli.options import EXIT_OK, Commands, port, run
from app.demo.upstream import create_demo
from app.errors import both
from app.web.server import serve_until_signal

DEMO_PORT = 6010


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("只启动演示模型", "start only the demo model, an OpenAI API of its own")
    parser = commands.add_parser("demo", help=text, description=text)
    parser.add_argument("--host", default="127.0.0.1", help=both("监听地址", "address to listen on"))
    parser.add_argument("--port", type=port, default=DEMO_PORT, help=both("监听端口", "port to listen on"))
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)

    def announce(address: str) -> None:
        print(
            f"demo model: API_URL={address} (any key, Ctrl-C stops it) / 演示模型，任意密钥，按 Ctrl-C 停止", flush=True
        )

    async def work() -> int:
        await serve_until_signal(create_demo(), options.host, options.port, 3, announce)
        return EXIT_OK

    return run(work())
