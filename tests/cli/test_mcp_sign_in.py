"""``vcp mcp-check NAME``: signing in, signing out, and consent beside a running server (mcp.md 2.6; MCP-55, MCP-78)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from app.cli.mcp_sign_in import accept, sign_in, sign_out
from app.config.snapshot import load
from app.errors import ConfigError
from app.home.lock import own_home
from app.mcp.client.consent import Consents
from app.mcp.client.oauth.errors import SignInError
from app.observe.bus import EventBus
from tests.cli.commands import command, refused
from tests.mcp.client.asking_server import asking, listed, used_by
from tests.mcp.client.oauth.realm import Browser, realm
from tests.server import KEY, run, running
from tests.waiting import until


def test_the_address_is_printed_and_a_browser_completes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with realm() as made:
            signing = asyncio.create_task(sign_in(tmp_path, made.entry()))
            printed: list[str] = []

            def shown() -> bool:
                printed.append(capsys.readouterr().out)
                return "/authorize?" in "".join(printed)

            await until(shown)
            (address,) = [line for line in "".join(printed).splitlines() if line.startswith("http")]
            Browser()(address)
            assert await signing == 0
            assert "signed in" in capsys.readouterr().out
            assert await sign_in(tmp_path, made.entry()) == 0
            assert "no sign-in is needed" in capsys.readouterr().out
            assert await sign_out(tmp_path, made.entry()) == 0
            assert await sign_out(tmp_path, made.entry()) == 0
            assert capsys.readouterr().out.splitlines()[0].endswith("signed out")

    run(main())


def test_consent_beside_a_running_server_counts_there_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("Key", KEY)

    async def main() -> None:
        async with asking() as made:
            used_by(tmp_path, made)
            with own_home(tmp_path, "serve") as ownership:
                async with running(tmp_path, "http://127.0.0.1:9") as server:
                    ownership.tell(server.url)
                    await listed(server, "ask", "visit", "say")
                    made.tools["ask"] = "Asks more"
                    await server.services.mcp.upstream_servers.tools_of("forms", refresh=True)
                    await listed(server, "visit", "say")
                    config = load(tmp_path, {"Key": KEY})
                    consents = Consents(tmp_path, EventBus())
                    with pytest.raises(ConfigError, match="changed again"):
                        await accept(config, consents, "forms", {"ask": "0" * 64})
                    (tool,) = await consents.changes("forms")
                    assert await accept(config, consents, "forms", {"ask": tool.digest}) == ("ask",)
                    await listed(server, "ask", "visit", "say")
            assert await accept(config, consents, "forms", {}) == ()

    run(main())


@pytest.mark.parametrize("words", [("--sign-in",), ("--sign-out",), ("nobody", "--sign-in"), ("nobody", "--sign-out")])
def test_a_sign_in_needs_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert "server" in refused(capsys, "mcp-check", "--home", tmp_path, *words)


def test_a_server_that_takes_no_sign_in_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mcp_servers.json").write_text(json.dumps({"mcpServers": {"s": {"command": "x"}}}))
    assert "takes no OAuth sign-in" in command(capsys, "mcp-check", "--home", tmp_path, "s", "--sign-in").err
    assert issubclass(SignInError, Exception)
