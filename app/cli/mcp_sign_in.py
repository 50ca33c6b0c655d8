"""``vcp mcp-check NAME`` with ``--sign-in`` or ``--accept``: a person's word about a server (mcp.md 2.6; MCP-55)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from app.cli.options import EXIT_OK
from app.cli.terminal import TerminalLines, printable
from app.config.keys import server_key
from app.config.snapshot import Config
from app.errors import ConfigError, both
from app.home.lock import owner_of
from app.home.running_server import ask, refused
from app.mcp.client.consent import Consents
from app.mcp.client.server_entry import ServerEntry


async def sign_in(home: Path, entry: ServerEntry) -> int:
    """Let the person at this terminal sign in; raises SignInError."""
    from app.mcp.client.oauth.sign_ins import SignIns  # it imports the SDK, which takes half a second

    def show(url: str) -> None:
        print(both("请在浏览器中打开", "open this in a browser") + f":\n{printable(url)}")
        if sys.stdin.isatty():
            print(
                both(
                    "若浏览器在另一台机器上：登录后把它最后停留的地址粘贴到这里",
                    "with a browser on another machine, paste the address here at which it ends",
                )
            )
        sys.stdout.flush()

    lines = TerminalLines().next if sys.stdin.isatty() else None
    done = await SignIns(home).sign_in(entry, show, lines)
    print(both("已登录", "signed in") if done else both("无需登录", "no sign-in is needed"))
    return EXIT_OK


async def sign_out(home: Path, entry: ServerEntry) -> int:
    """Discard what is kept of a sign-in."""
    from app.mcp.client.oauth.sign_ins import SignIns

    try:
        gone = await SignIns(home).sign_out(entry)
    except OSError as error:
        raise ConfigError(both("无法删除", "it cannot be removed") + f": {error.strerror or error}") from error
    print(both("已退出登录", "signed out") if gone else both("没有登录信息", "nobody was signed in"))
    return EXIT_OK


async def accept(config: Config, consents: Consents, server: str, shown: Mapping[str, str]) -> tuple[str, ...]:
    """Consent to the changed tools of a server, through the server that runs in this home where there is one.

    ``shown`` has the digest of what the person has seen of each.
    """
    owner = owner_of(config.home)
    if owner is None or not owner.address:
        return await consents.accept(server, shown)
    path = f"/v1/mcp/servers/{quote(server, safe='')}/consent"
    status, value = await ask(owner, server_key(config).value, "POST", path, {"tools": dict(shown)})
    tools = value.get("tools") if isinstance(value, dict) else None
    if status != 200 or not isinstance(tools, list):
        said = value.get("error") if isinstance(value, dict) else ""
        raise refused(status, said if isinstance(said, str) else "")
    return tuple(str(tool) for tool in tools)
