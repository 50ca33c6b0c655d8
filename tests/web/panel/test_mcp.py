"""The page of MCP servers and groups: state, steering, consent to what is shown, files, saved tokens (MCP-55, D84)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.mcp.client.asking_server import asking, listed, used_by
from tests.mcp.client.oauth.realm import realm
from tests.server import ECHO, run, running, write_plugin
from tests.waiting import until
from tests.web.panel.browsing import CONFIG, HOSTILE, Page, browsing


def test_a_server_is_steered_and_a_changed_tool_consented_to(tmp_path: Path) -> None:
    """Old and new words of a changed tool are shown as text; the consent is to what was shown."""

    async def main() -> None:
        async with asking() as made:
            used_by(tmp_path, made, description=HOSTILE)
            async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
                page = Page(server)
                await listed(server, "ask", "visit", "say")
                shown = (await page.get("/mcp")).text
                assert "running" in shown and "forms.ask" in shown and "<img src=x" not in shown
                assert "运行中" in (await page.get("/mcp", "zh")).text
                stopped = await page.post("/mcp-act/forms", {"action": "stop"})
                assert "stopped" in stopped.text and "mcp-changed" in stopped.headers["HX-Trigger"]
                piece = (await page.get("/mcp", **{"HX-Request": "true"})).text
                assert "not running" in piece and "<html" not in piece
                made.tools["ask"] = f"Asks {HOSTILE}"
                assert (await page.post("/mcp-act/forms", {"action": "start"})).status_code == 200
                shown = (await page.get("/mcp")).text
                assert "Asks &lt;img" in shown and "<script>alert" not in shown
                found = re.search(r'name="tool:ask" value="([0-9a-f]{64})"', shown)
                assert found
                assert (await page.post("/mcp-consent/forms", {})).status_code == 400
                made.tools["ask"] = "Asks again"
                await page.post("/mcp-act/forms", {"action": "restart"})
                late = await page.post("/mcp-consent/forms", {"tool:ask": found[1]})
                assert late.status_code == 409 and "changed again" in late.text
                found = re.search(r'name="tool:ask" value="([0-9a-f]{64})"', (await page.get("/mcp")).text)
                assert found
                assert "Consented to 1" in (await page.post("/mcp-consent/forms", {"tool:ask": found[1]})).text
                assert "tool:ask" not in (await page.get("/mcp")).text

    run(main())


def test_a_server_that_wants_a_sign_in_shows_its_address(tmp_path: Path) -> None:
    """D84: no secret of the flow but the address that a person has to open."""

    async def main() -> None:
        async with realm() as made:
            (tmp_path / "mcp_servers.json").write_text(f'{{"mcpServers": {{"s": {{"url": "{made.server_url}"}}}}}}')
            async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
                page = Page(server)
                await until(lambda: (one := server.services.mcp.trust.needed("s")) is not None and one.url)
                shown = (await page.get("/mcp")).text
                assert "needs a sign-in" in shown and f'href="{made.url}/authorize?' in shown
                assert (await page.post("/mcp-sign-in/s")).status_code == 400, "one flow at a time"
                assert (await page.post("/mcp-address/s", {"address": "nonsense"})).status_code == 400
                assert "secret-" not in shown

    run(main())


def test_failed_servers_tell_why_and_unknown_ones_are_not_found(tmp_path: Path) -> None:
    servers = {HOSTILE[:40]: {"command": "no-such-program-at-all"}, "off": {"command": "x", "disabled": True}}
    (tmp_path / "mcp_servers.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    async def test(page: Page) -> None:
        states = page.server.services.mcp.upstream_servers.states
        await until(lambda: any(one.error for one in states()))
        shown = (await page.get("/mcp")).text
        assert "failed" in shown and "switched off" in shown and "<img src=x" not in shown
        for path in ("mcp-act", "mcp-sign-in", "mcp-sign-out", "mcp-address", "mcp-consent"):
            form = {"action": "start", "address": "x", "tool:a": "b"}
            answer = await page.post(f"/{path}/nobody", form)
            assert answer.status_code == 404 and answer.headers["HX-Retarget"] == "#notices"
        assert (await page.post("/mcp-act/off", {"action": "explode"})).status_code == 400

    browsing(tmp_path, test)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_empty_pages_show_the_way(tmp_path: Path, language: str) -> None:
    async def test(page: Page) -> None:
        words = {"en": ("No MCP servers", "No groups"), "zh": ("没有 MCP 服务器", "没有分组")}[language]
        for tab, word in zip(("servers", "groups"), words, strict=True):
            assert word in (await page.get(f"/mcp?tab={tab}", language)).text
        for tab in ("file", "groups-file"):
            assert "data-save=" in (await page.get(f"/mcp?tab={tab}", language)).text

    browsing(tmp_path, test)


def test_files_that_cannot_be_used_are_not_taken_for_empty_ones(tmp_path: Path) -> None:
    for name in ("mcp_servers.json", "tool_groups.json"):
        (tmp_path / name).write_bytes(b'{"a": \xff [broken')

    async def test(page: Page) -> None:
        for tab, name in (("servers", "mcp_servers.json"), ("groups", "tool_groups.json")):
            shown = (await page.get(f"/mcp?tab={tab}")).text
            assert f"{name} has problems" in shown and "is no JSON" in shown
            assert "No MCP servers" not in shown and "No groups" not in shown
            assert f"{name} 有问题" in (await page.get(f"/mcp?tab={tab}", "zh")).text

    browsing(tmp_path, test)


def test_groups_are_shown_with_their_tools_and_what_they_save(tmp_path: Path) -> None:
    commands = {"invocationCommands": [{"command": "e", "description": "says " + "much " * 400}]}
    for number in range(4):
        write_plugin(tmp_path, f"Echo{number}", ECHO, capabilities=commands, groups=["voices"])
    groups = {"groups": {HOSTILE[:20]: {"description": HOSTILE, "tools": ["Echo*"]}}}
    (tmp_path / "tool_groups.json").write_text(json.dumps(groups), encoding="utf-8")

    async def test(page: Page) -> None:
        shown = (await page.get("/mcp?tab=groups")).text
        assert "voices" in shown and "Echo3" in shown and "tokens saved" in shown and "<img src=x" not in shown
        saved = re.findall(r"<b>([\d,]+)</b><span>tokens", shown)
        flat, modular, won = (int(one.replace(",", "")) for one in saved)
        assert flat > modular and won == flat - modular

    browsing(tmp_path, test)


def test_the_file_is_shown_as_it_is_and_its_problems_beside_it(tmp_path: Path) -> None:
    """D84: the editor has the true text."""
    text = '{"mcpServers": {"a": {"command": "x", "env": {"TOKEN": "very-secret"}}, "b#": {}}}</textarea><script>'
    (tmp_path / "mcp_servers.json").write_text(text, encoding="utf-8")

    async def test(page: Page) -> None:
        shown = (await page.get("/mcp?tab=file")).text
        assert "very-secret" in shown and "</textarea><script>" not in shown and 'data-kind="warn"' in shown

    browsing(tmp_path, test)


def test_of_many_changed_tools_the_first_are_shown_and_the_page_stays_small(tmp_path: Path) -> None:
    """Nobody consents to what was not shown: the others are named, and come when the first are decided."""

    async def main() -> None:
        async with asking() as made:
            names = [f"tool{number:02d}" for number in range(40)]
            made.tools.clear()
            made.tools.update(dict.fromkeys(names, "short"))
            used_by(tmp_path, made)
            async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
                page = Page(server)
                await listed(server, *names)
                made.tools.update(dict.fromkeys(names, "<&" * 6_000))
                await server.services.mcp.upstream_servers.tools_of("forms", refresh=True)
                shown = await page.get("/mcp")
                first = re.findall(r'name="tool:(\w+)"', shown.text)
                assert 0 < len(first) < 10 and len(shown.content) < 500_000
                assert "tool39" in shown.text and "Too long to be shown as a whole" in shown.text

    run(main())
