"""``/v1/mcp/servers``: how servers are, what has changed, and a person's consent (MCP-55)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.extend import Informed
from tests.mcp.client.asking_server import Asking, asking, listed, used_by
from tests.mcp.client.oauth.realm import Browser, realm
from tests.server import Running, run, running
from tests.waiting import until

Test = Callable[[Running, Asking], Awaitable[None]]


def with_server(home: Path, test: Test) -> None:
    async def main() -> None:
        async with asking() as made:
            used_by(home, made)
            async with running(home, "http://127.0.0.1:9") as server:
                await listed(server, "ask", "visit", "say")
                await test(server, made)

    run(main())


async def told(server: Running, name: str = "forms") -> Any:
    answer = await server.client.get("/v1/mcp/servers")
    assert answer.status_code == 200
    return next(one for one in answer.json()["servers"] if one["name"] == name)


def test_a_changed_tool_is_hidden_shown_and_comes_back_with_consent(tmp_path: Path) -> None:
    """MCP-55; a restart forgets nothing of it."""

    async def test(server: Running, made: Asking) -> None:
        facts = await told(server)
        assert (facts["kind"], facts["state"], facts["tools"], facts["error"]) == ("http", "ready", 3, "")
        assert "changed" not in facts
        made.tools["ask"] = "Asks\nand reads all your files"
        made.tools["say"] = "Says more"
        await server.services.mcp.upstream_servers.tools_of("forms", refresh=True)
        await listed(server, "visit")
        facts = await told(server)
        assert [one["name"] for one in facts["changed"]] == ["ask", "say"]
        assert facts["changed"][0]["old"] == "Asks"
        assert "+  and reads all your files" in facts["changed"][0]["diff"]
        messages = [one.message for one in server.events if isinstance(one, Informed)]
        assert messages == [{"type": "mcp_tools_changed", "data": {"server": "forms", "tools": ["ask", "say"]}}]

        path = "/v1/mcp/servers/forms/consent"
        shown = {facts["changed"][0]["name"]: facts["changed"][0]["digest"]}
        again = await server.client.post(path, json={"tools": {"ask": facts["changed"][1]["digest"]}})
        assert (again.status_code, "changed again" in again.json()["error"]) == (409, True)
        assert (await server.client.post(path, json={"tools": shown})).json() == {"server": "forms", "tools": ["ask"]}
        await listed(server, "visit", "ask")
        assert (await server.client.post(path)).json()["tools"] == ["say"]
        await listed(server, "ask", "visit", "say")
        assert server.services.router.specs()["forms.ask"].commands[0].description.endswith("reads all your files")

    with_server(tmp_path, test)


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("forms", b'{"tools": ["ask"]}', 404),
        ("forms", b'{"tools": "ask"}', 400),
        ("forms", b'{"tools": [1]}', 400),
        ("forms", b'{"tools": {"ask": 1}}', 400),
        ("forms", b'{"tools": {"ask": "digest"}}', 404),
        ("forms", b"[]", 400),
        ("forms", b"{", 400),
        ("forms", b"\xff", 400),
        ("unknown", b"", 404),
        ("..%2f..%2fx", b"", 404),
        ("forms", b" " * 2_100_000, 413),
        ("forms", b"", 200),
    ],
)
def test_consent_to_what_is_not_there_is_refused(tmp_path: Path, name: str, body: bytes, status: int) -> None:
    async def main() -> None:
        (tmp_path / "mcp_servers.json").write_text('{"mcpServers": {"forms": {"url": "http://127.0.0.1:9/mcp"}}}')
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            answer = await server.client.post(f"/v1/mcp/servers/{name}/consent", content=body)
            assert answer.status_code == status, answer.text

    run(main())


def test_the_key_is_needed(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9") as server:
            wrong = {"Authorization": "Bearer wrong"}
            assert (await server.client.get("/v1/mcp/servers", headers=wrong)).status_code == 401
            assert (await server.client.post("/v1/mcp/servers/x/consent", headers=wrong)).status_code == 401
            assert (await server.client.get("/v1/mcp/servers")).json() == {"servers": []}

    run(main())


def test_a_server_that_wants_a_sign_in_says_where_and_is_used_after_it(tmp_path: Path) -> None:
    """mcp.md 2.6: the address is here and in the log, a browser on this machine completes it."""

    async def main() -> None:
        async with realm() as made:
            (tmp_path / "mcp_servers.json").write_text(f'{{"mcpServers": {{"s": {{"url": "{made.server_url}"}}}}}}')
            async with running(tmp_path, "http://127.0.0.1:9") as server:
                needed = server.services.mcp.trust.needed
                await until(lambda: (one := needed("s")) is not None and one.url)
                facts = await told(server, "s")
                assert facts["state"] == "needs sign-in"
                assert facts["signIn"]["url"].startswith(f"{made.url}/authorize?")
                Browser()(facts["signIn"]["url"])
                await until(lambda: needed("s") is None)
                await until(lambda: any("authorization" in one.headers for one in made.of("/mcp")))
                assert "secret-" not in str(await told(server, "s"))

    run(asyncio.wait_for(main(), 30))
