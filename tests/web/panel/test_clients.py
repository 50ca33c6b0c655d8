"""Clients and nodes in the panel: who is connected, ending a connection, keys of nodes (B15); their names are text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.hub.nodes.key_file import NODE_KEYS_FILE, read_node_keys
from tests.hub.clients import SOCKET_KEY, address, connected
from tests.hub.nodes.wire_nodes import manifest
from tests.server import run, running
from tests.web.panel.visits import HOSTILE, LOGIN, Visits, is_harmless, text_of, visit

CONFIG = ["AdminUsername=admin", "AdminPassword=secret", f"VCP_Key={SOCKET_KEY}"]


def test_clients_and_nodes_are_listed_and_hung_up_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, "http://127.0.0.1:9", config=CONFIG) as server:
            login = dict([LOGIN])

            async def page(path: str) -> str:
                return str((await server.client.get(f"/AdminPanel/{path}", headers=login)).text)

            async with (
                connected(address(server.url, "/vcp-distributed-server")) as node,
                connected(address(server.url)) as client,
            ):
                await client.receive_type("connection_ack")
                offered = manifest("Bohrer", displayName=HOSTILE, description=HOSTILE)
                data = {"serverName": "werkstatt", "tools": [offered]}
                await node.send({"type": "register_tools", "data": data})
                for _ in range(400):
                    shown = await page("clients/connected")
                    if "werkstatt" in shown and "Bohrer" in shown:
                        break
                    await (await node.connection.ping())
                assert "Bohrer" in shown
                assert "通知客户端" in shown
                assert "<img src=x" not in await page("clients")
                assert "节点 werkstatt" in await page("search?q=WERK")
                ids = re.findall(r'name="client" value="([^"]+)"', shown)
                assert len(ids) == 2
                for one, wire in zip(ids, (node, client), strict=True):
                    ended = await server.client.post("/AdminPanel/clients/end", data={"client": one}, headers=login)
                    assert ended.status_code == 303
                    assert (await wire.goodbye(after_more=True))[0] == 1001
            gone = await server.client.post("/AdminPanel/clients/end", data={"client": ids[0]}, headers=login)
            assert gone.status_code == 404

    run(main())


def test_a_key_is_made_shown_once_limited_and_taken_back(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        made = await panel.post("clients/keys", name="werkstatt", tools="")
        found = re.search(r'id="made-key">([^<]+)<', made.body.decode())
        assert found is not None
        key = found[1]
        assert key not in (await panel.get("clients/keys")).body.decode()
        assert panel.services.node_keys.identify(key) == "werkstatt"
        assert (await panel.post("clients/keys/limit", name="werkstatt", tools="Bohrer, Säge，Hobel")).status == 303
        assert read_node_keys(tmp_path).keys["werkstatt"].tools == ("Bohrer", "Säge", "Hobel")
        assert (await panel.post("clients/keys/limit", name="werkstatt", tools=" ")).status == 303
        assert read_node_keys(tmp_path).keys["werkstatt"].tools is None
        assert (await panel.post("clients/keys/revoke", name="werkstatt")).status == 303
        assert "revoked" in text_of(await panel.get("clients/keys", "en"))
        assert panel.services.node_keys.identify(key) is None
        assert (await panel.post("clients/keys/revoke", name="nobody")).status == 404

    visit(tmp_path, test)


@pytest.mark.parametrize("name", ["", "../x", HOSTILE, "a" * 65])
def test_a_name_that_no_node_can_have_is_told(tmp_path: Path, name: str) -> None:
    async def test(panel: Visits) -> None:
        answer = await panel.post("clients/keys", "en", name=name)
        assert answer.status == 400
        assert is_harmless(answer)
        assert not (tmp_path / NODE_KEYS_FILE).exists()

    visit(tmp_path, test)


def test_a_file_of_keys_that_is_broken_is_told_and_stays(tmp_path: Path) -> None:
    async def test(panel: Visits) -> None:
        path = tmp_path / NODE_KEYS_FILE
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({HOSTILE: {"digest": HOSTILE}}))
        assert is_harmless(await panel.get("clients/keys"))
        path.write_text("{broken")
        answer = await panel.get("clients/keys", "en")
        assert answer.status == 200
        assert "cannot be used" in text_of(answer)
        assert (await panel.post("clients/keys", name="a")).status == 400
        assert path.read_text() == "{broken"

    visit(tmp_path, test)


@pytest.mark.parametrize(("language", "said"), [("zh", "没有节点连接"), ("en", "No node is connected")])
def test_without_clients_it_says_so(tmp_path: Path, language: str, said: str) -> None:
    async def test(panel: Visits) -> None:
        assert said in text_of(await panel.get("clients", language))

    visit(tmp_path, test)
