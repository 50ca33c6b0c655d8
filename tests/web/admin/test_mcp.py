"""MCP servers for administrators: state, starting and stopping, consent to what was shown, signing in."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.mcp.client.asking_server import asking, listed, used_by
from tests.mcp.client.oauth.realm import realm
from tests.server import Running, run, running
from tests.waiting import until

LOGIN = {"Authorization": "Basic " + b64encode(b"admin:secret").decode()}
CONFIG = ("AdminUsername=admin", "AdminPassword=secret")


async def post(server: Running, path: str, body: Any = None) -> Any:
    return await server.client.post(f"/admin_api/mcp-servers/{path}", json={} if body is None else body, headers=LOGIN)


async def facts(server: Running) -> Any:
    answer = await server.client.get("/admin_api/mcp-servers", headers=LOGIN)
    assert answer.status_code == 200
    return answer.json()["servers"][0]


def test_a_server_is_stopped_started_and_consented_to(tmp_path: Path) -> None:
    """A stopped server starts with its next call only; consent is to what was shown, by digest (MCP-55)."""

    async def main() -> None:
        async with asking() as made:
            used_by(tmp_path, made, autoStart=True)
            async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
                await listed(server, "ask", "visit", "say")
                assert (await facts(server))["state"] == "ready"
                assert "停止" in (await post(server, "forms/stop")).json()["message"]
                servers = server.services.mcp.upstream_servers
                await servers.look()
                assert (await facts(server))["state"] == "idle", "not even one that starts by itself comes back"
                assert "forms.ask" in server.services.router.specs()
                assert (await post(server, "forms/start")).status_code == 200
                assert (await facts(server))["state"] == "ready"
                made.tools["ask"] = "Asks\nand more"
                assert (await post(server, "forms/restart")).status_code == 200
                (changed,) = (await facts(server))["changed"]
                assert (await post(server, "forms/consent", {"tools": {"ask": "0" * 64}})).status_code == 409
                answer = await post(server, "forms/consent", {"tools": {"ask": changed["digest"]}})
                assert answer.json() == {"tools": ["ask"]}

    run(main())


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("nobody/start", None, 404),
        ("nobody/stop", None, 404),
        ("nobody/consent", {"tools": {"a": "x"}}, 404),
        ("nobody/sign-in", None, 404),
        ("nobody/sign-out", None, 404),
        ("nobody/sign-in/address", {"address": "x"}, 404),
        ("forms/start", None, 502),
        ("forms/sign-in/address", {"address": "http://127.0.0.1:1/callback?code=x"}, 400),
        ("forms/consent", {"tools": ["a"]}, 400),
        ("forms/consent", {"tools": {"a": ""}}, 400),
        ("piped/sign-in", None, 400),
        ("..%2F..%2Fetc/start", None, 404),
        ("forms/explode", None, 404),
    ],
)
def test_what_cannot_be_done_is_told(tmp_path: Path, path: str, body: Any, status: int) -> None:
    async def main() -> None:
        servers = {"forms": {"url": "http://127.0.0.1:9/mcp"}, "piped": {"command": "no-such-program"}}
        (tmp_path / "mcp_servers.json").write_text(json.dumps({"mcpServers": servers}))
        async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
            answer = await post(server, path, body)
            assert answer.status_code == status and answer.json()["error"]
            key_only = await server.client.post(f"/admin_api/mcp-servers/{path}", json={})
            assert key_only.status_code == 401, "the key of clients opens nothing here"

    run(main())


def test_somebody_signs_in_from_another_machine_by_pasting_the_address(tmp_path: Path) -> None:
    """mcp.md 2.6: the state tells the address; the one at which the browser ends completes the flow."""

    async def main() -> None:
        async with realm() as made:
            (tmp_path / "mcp_servers.json").write_text(f'{{"mcpServers": {{"s": {{"url": "{made.server_url}"}}}}}}')
            async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
                trust = server.services.mcp.trust
                await until(lambda: (one := trust.needed("s")) is not None and one.url)
                assert (await post(server, "s/sign-in")).status_code == 400, "one flow at a time"
                shown = (await facts(server))["signIn"]["url"]
                async with httpx.AsyncClient(trust_env=False, verify=False) as browser:
                    ends = (await browser.get(shown)).headers["location"]
                assert (await post(server, "s/sign-in/address", {"address": "http://x/?nonsense=1"})).status_code == 400
                assert (await post(server, "s/sign-in/address", {"address": ends})).status_code == 200
                await until(lambda: trust.needed("s") is None)
                assert "退出" in (await post(server, "s/sign-out")).json()["message"]
                assert "没有登录信息" in (await post(server, "s/sign-out")).json()["message"]

    run(asyncio.wait_for(main(), 30))


def test_a_sign_in_that_came_to_nothing_is_begun_again(tmp_path: Path) -> None:
    """The background begins one by itself once; a person may begin the next."""

    async def main() -> None:
        async with realm() as made:
            (tmp_path / "mcp_servers.json").write_text(f'{{"mcpServers": {{"s": {{"url": "{made.server_url}"}}}}}}')
            async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
                trust = server.services.mcp.trust
                await until(lambda: (one := trust.needed("s")) is not None and one.url)
                await trust.sign_ins.stop()
                assert "url" not in (await facts(server))["signIn"] or not (await facts(server))["signIn"]["url"]
                assert (await post(server, "s/sign-in")).status_code == 200
                await until(lambda: (one := trust.needed("s")) is not None and one.url)

    run(asyncio.wait_for(main(), 30))
