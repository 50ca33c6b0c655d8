"""``vcp nodes``: which far nodes are connected to the server that runs in this home, and how they are."""

from __future__ import annotations

import argparse
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from urllib.parse import urlsplit

from app.cli.options import EXIT_OK, Commands, home_folder, home_option, run
from app.cli.server_answers import needed_owner
from app.cli.terminal import printable
from app.config.keys import server_key
from app.config.settings import Settings
from app.config.snapshot import load
from app.errors import both
from app.extend import Json
from app.home.lock import Owner
from app.home.running_server import ask, refused
from app.protocol.json_text import compact_json, pretty_json
from app.protocol.loopback import is_loopback

SHOWN_TOOLS = 12
SHOWN_CHARACTERS = 200
GAP = 2

_HEADINGS = ("name", "version", "latency", "running", "calls", "failed", "since", "address")
_CHINESE_HEADINGS = ("名称", "版本", "延迟", "运行中", "调用", "失败", "连接于", "地址")


def add_to(commands: Commands) -> None:
    """Add this command's arguments."""
    text = both("列出已连接的节点", "list the nodes that are connected")
    more = both("询问该安装目录中正在运行的服务器", "the server that runs in this home is asked")
    parser = commands.add_parser("nodes", parents=[home_option()], help=text, description=f"{text}. {more}.")
    parser.add_argument("--json", action="store_true", help=both("输出 JSON", "print JSON"))
    parser.set_defaults(run=_nodes)


def _nodes(options: argparse.Namespace) -> int:
    home = home_folder(options)
    owner = needed_owner(home)
    config = load(home, os.environ)
    return run(_told(owner, server_key(config).value, config.settings, config.zone, as_json=options.json))


async def _told(owner: Owner, key: str, settings: Settings, zone: tzinfo, *, as_json: bool) -> int:
    status, answer = await ask(owner, key, "GET", "/v1/nodes")
    nodes = answer.get("nodes") if isinstance(answer, Mapping) else None
    if status != 200 or not isinstance(nodes, list):
        raise refused(status, compact_json(answer))
    if as_json:
        print(pretty_json({"nodes": nodes}))
    elif nodes:
        print("\n".join(_lines([node for node in nodes if isinstance(node, Mapping)], zone)))
    else:
        print(both("没有已连接的节点。两条命令即可添加一个：", "No node is connected. Two commands add one:"))
        print(f"  vcp keys node workshop\n  {join_command('workshop', settings, owner)}")
        for hint in join_hints(settings):
            print(f"  {hint}")
    return EXIT_OK


def join_command(name: str, settings: Settings, owner: Owner | None) -> str:
    """What to type on the other machine; capitals stand for what the person puts in. ``owner`` of the home, if any."""
    port = urlsplit(owner.address).port if owner is not None and owner.command == "serve" else None
    return f"VCP_KEY=KEY vcp node --url ws://ADDRESS:{port or settings.port} --name {name}"


def join_hints(settings: Settings) -> Iterator[str]:
    """What a person has to know of that command."""
    yield both("KEY 换成该密钥，ADDRESS 换成本机地址", "KEY is that key, ADDRESS the address of this machine")
    if is_loopback(settings.host):
        yield both(
            f"HOST={settings.host} 只允许本机连接：请用 HOST=0.0.0.0 或反向代理（wss://），见 docs/nodes.md",
            f"HOST={settings.host} lets in this machine alone: HOST=0.0.0.0 or a reverse proxy (wss://), see "
            "docs/nodes.md",
        )


def _lines(nodes: Sequence[Mapping[str, Json]], zone: tzinfo) -> Iterator[str]:
    headings = [both(chinese, english) for chinese, english in zip(_CHINESE_HEADINGS, _HEADINGS, strict=True)]
    rows = [headings, *(_row(node, zone) for node in nodes)]
    widths = [max(_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        padded = (cell + " " * (width + GAP - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "".join(padded).rstrip()
        if number:
            yield from _details(nodes[number - 1])


def _row(node: Mapping[str, Json], zone: tzinfo) -> list[str]:
    latency, since = node.get("latency"), node.get("since")
    return [
        _shown(node.get("name")),
        _shown(node.get("version")),
        _milliseconds(latency) if isinstance(latency, int | float) else "-",
        _shown(node.get("running")),
        _shown(node.get("calls")),
        _shown(node.get("failures")),
        datetime.fromtimestamp(since, zone).strftime("%Y-%m-%d %H:%M:%S") if isinstance(since, int | float) else "-",
        _shown(node.get("address")),
    ]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds >= 0.001 else f"{seconds * 1000:.2f} ms"


def _details(node: Mapping[str, Json]) -> Iterator[str]:
    tools, labels = _names(node.get("tools")), _names(node.get("labels"))
    listed = ", ".join(tools[:SHOWN_TOOLS]) + (f", … (+{len(tools) - SHOWN_TOOLS})" if len(tools) > SHOWN_TOOLS else "")
    yield f"    {both('工具', 'tools')} ({len(tools)}): {listed or '-'}"
    if labels:
        yield f"    {both('标签', 'labels')}: {', '.join(labels[:SHOWN_TOOLS])}"
    if error := node.get("last_error"):
        yield f"    {both('最近的错误', 'last error')}: {_shown(error)}"


def _names(value: Json) -> list[str]:
    return [_shown(name) for name in value] if isinstance(value, list) else []


def _shown(value: Json) -> str:
    """What a node told of itself, fit for a terminal."""
    text = printable("" if value is None else str(value))
    return (text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…") or "-"


def _width(text: str) -> int:
    """Columns of a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
