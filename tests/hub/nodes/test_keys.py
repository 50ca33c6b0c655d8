"""Keys of nodes as they count now (B15, 6.4): who comes in, with what, and when that ends."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from app.errors import ConfigError
from app.hub.clients import ClientType
from app.hub.hub import PATHS
from app.hub.nodes.key_file import NODE_KEYS_FILE, limit_node_tools, make_node_key, revoke_node_key
from app.hub.nodes.keys import NodeKeys
from app.web.blocking import KEY_FAILURES
from tests.hub.clients import SOCKET_KEY, address, bare, connected
from tests.server import Running, run, running

UPSTREAM = "http://127.0.0.1:9"
CONFIG = (f"VCP_Key={SOCKET_KEY}",)
NODES = PATHS[ClientType.NODE]


def made(home: Path, name: str = "workshop", **more: Any) -> str:
    return make_node_key(home, name, 0, **more)


def keys_in(home: Path) -> NodeKeys:
    return NodeKeys(home, time.monotonic)


async def refused(url: str, **options: Any) -> int:
    """The status with which a WebSocket is refused."""
    with pytest.raises(InvalidStatus) as answer:
        async with connected(url, **options):
            pass
    return answer.value.response.status_code


# ---------------------------------------------------------------------- whose key is this


def test_a_key_names_its_node_and_every_other_text_names_nobody(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    assert keys.identify("anything") is None, "there is no file yet"
    first, second = made(tmp_path, "a"), made(tmp_path, "b")
    assert (keys.identify(first), keys.identify(second)) == ("a", "b"), "a new key counts at once"
    for other in ("", first[:-1], f"{first} ", first.upper(), "\ud800", "\x00", "a", "x" * 100_000):
        assert keys.identify(other) is None
    digest = (tmp_path / NODE_KEYS_FILE).read_text().split('"digest": "')[1][:64]
    assert keys.identify(digest) is None, "what is in the file opens nothing"


def test_all_keys_are_compared_wherever_the_right_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [made(tmp_path, name) for name in "abcd"]
    revoke_node_key(tmp_path, "b")
    keys = keys_in(tmp_path)
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    for key in (known[0], known[3], "wrong"):
        compared.clear()
        keys.identify(key)
        assert len(compared) == len(known)


def test_a_revoked_key_names_nobody(tmp_path: Path) -> None:
    key = made(tmp_path)
    keys = keys_in(tmp_path)
    assert keys.identify(key) == "workshop"
    revoke_node_key(tmp_path, "workshop")
    assert keys.identify(key) is None
    assert not keys.allows("workshop", "Echo")
    assert not keys.reserved("workshop")
    assert keys.identify(made(tmp_path)) == "workshop"
    assert keys.identify(key) is None


def test_a_list_names_the_tools_that_a_node_may_bring(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    for name, tools in (("free", None), ("some", ("Echo",)), ("none", ())):
        made(tmp_path, name, tools=tools)
    keys.identify("")
    allowed = [
        [tool for tool in ("Echo", "echo", "Dice") if keys.allows(name, tool)] for name in ("free", "some", "none")
    ]
    assert allowed == [["Echo", "echo", "Dice"], ["Echo"], []]
    assert keys.allows("", "Echo"), "who came with the common key has no list"
    assert not keys.allows("unknown", "Echo")
    assert [keys.reserved(name) for name in ("free", "unknown", "")] == [True, False, False]


def test_nobody_else_gets_a_name_that_people_would_take_for_that_of_a_key(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    made(tmp_path, "Büro-1")
    keys.identify("")
    assert all(keys.reserved(name) for name in ("Büro-1", "büro-1", "BÜRO-1", "Ｂüro-1", "Büro-１"))
    assert not keys.reserved("Büro-2")
    with pytest.raises(ConfigError, match="'Büro-1' in capitals or width"):
        made(tmp_path, "büro-1")
    made(tmp_path, "Büro-1")


# ---------------------------------------------------------------------- the file changes


def test_a_broken_file_leaves_the_last_good_keys_in_force_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = made(tmp_path)
    keys = keys_in(tmp_path)
    keys.identify("")
    (tmp_path / NODE_KEYS_FILE).write_text("{half")
    with caplog.at_level(logging.ERROR):
        assert [keys.identify(key) for _ in range(3)] == ["workshop"] * 3
    assert len(caplog.messages) == 1
    assert "keys of nodes stay as they were" in caplog.messages[0]
    assert key not in caplog.text


def test_a_file_that_is_broken_at_the_start_lets_nobody_in(tmp_path: Path) -> None:
    key = made(tmp_path)
    good = (tmp_path / NODE_KEYS_FILE).read_bytes()
    (tmp_path / NODE_KEYS_FILE).write_bytes(good[:-5])
    keys = keys_in(tmp_path)
    assert keys.identify(key) is None
    (tmp_path / NODE_KEYS_FILE).write_bytes(good)
    assert keys.identify(key) == "workshop"


def test_an_entry_that_becomes_faulty_lets_nobody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key, other = made(tmp_path), made(tmp_path, "b")
    keys = keys_in(tmp_path)
    keys.identify("")
    path = tmp_path / NODE_KEYS_FILE
    path.write_text(path.read_text().replace('"tools": null', '"tools": "all"', 1))
    with caplog.at_level(logging.ERROR):
        assert (keys.identify(key), keys.identify(other)) == (None, "b")
    assert "'workshop' has no usable list of tools" in caplog.text


def test_who_listens_hears_of_every_change_and_of_each_key_that_counts_no_longer(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    heard: list[str] = []
    keys.on_end(heard.append)
    keys.on_change(lambda: heard.append("changed"))

    def told() -> list[str]:
        heard.clear()
        keys.identify("")
        return list(heard)

    assert told() == []
    for name in "abc":
        made(tmp_path, name)
    assert told() == ["changed"]
    assert told() == []
    limit_node_tools(tmp_path, "a", ("Echo",))
    assert told() == ["changed"], "another list ends no connection"
    revoke_node_key(tmp_path, "a")
    made(tmp_path, "b")
    assert told() == ["a", "b", "changed"], "revoked, and replaced by another key"
    (tmp_path / NODE_KEYS_FILE).unlink()
    assert told() == ["b", "c", "changed"], "removed; what was revoked before ended then"


def test_nothing_of_the_watch_is_left_after_a_stop(tmp_path: Path) -> None:
    async def main() -> None:
        keys = NodeKeys(tmp_path, time.monotonic, look_seconds=0.001)
        heard = asyncio.Event()
        keys.on_change(heard.set)
        before = len(asyncio.all_tasks())
        await keys.start()
        await asyncio.to_thread(made, tmp_path)
        await heard.wait()
        assert keys.health() == ""
        await keys.stop()
        assert len(asyncio.all_tasks()) == before

    run(main())


def test_a_watch_that_ended_makes_the_server_unwell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        keys = NodeKeys(tmp_path, time.monotonic, look_seconds=0.001)

        def fails() -> None:
            raise RuntimeError("a fault of a listener")

        keys.on_change(fails)
        await keys.start()
        await asyncio.to_thread(made, tmp_path)
        while not keys.health():
            await asyncio.sleep(0)
        await keys.stop()
        assert "a fault of a listener" in caplog.text

    run(main())


# ---------------------------------------------------------------------- in the server


async def connections(server: Running, count: int) -> list[str]:
    """Whose keys the connected nodes brought, once there are ``count`` of them."""
    while server.services.hub.count(ClientType.NODE) != count:
        await asyncio.sleep(0)
    return [client.identity for client in server.services.hub.clients(ClientType.NODE)]


def test_a_node_key_opens_the_path_of_nodes_and_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
            key = await asyncio.to_thread(made, tmp_path)
            async with connected(address(server.url, NODES, key)):
                assert await connections(server, 1) == ["workshop"]
            async with connected(bare(server.url, NODES), additional_headers={"Authorization": f"Bearer {key}"}):
                assert await connections(server, 1) == ["workshop"]
            for path in set(PATHS.values()) - {NODES}:
                assert await refused(address(server.url, path, key)) == 401, path
            answer = await server.client.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 401, "it is no key of HTTP clients either"

    run(main())


def test_with_node_keys_only_the_common_key_opens_everything_but_the_path_of_nodes(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=(*CONFIG, "NodeKeysOnly=true")) as server:
            key = await asyncio.to_thread(made, tmp_path)
            assert await refused(address(server.url, NODES)) == 401
            async with connected(address(server.url, NODES, key)), connected(address(server.url)):
                assert await connections(server, 1) == ["workshop"]

    run(main())


@pytest.mark.parametrize("way", ["revoked", "replaced"])
def test_the_connection_of_a_node_ends_with_its_key_and_others_stay(tmp_path: Path, way: str) -> None:
    async def main() -> None:
        key, other = made(tmp_path), made(tmp_path, "other")
        async with (
            running(tmp_path, UPSTREAM, config=CONFIG) as server,
            connected(address(server.url, NODES, key)) as node,
            connected(address(server.url, NODES, other)) as kept,
            connected(address(server.url, NODES)) as common,
        ):
            await connections(server, 3)
            end = revoke_node_key if way == "revoked" else made
            await asyncio.to_thread(end, tmp_path, "workshop")
            assert await node.goodbye() == (1008, "the key of this node counts no longer")
            await kept.nothing_waits()
            await common.nothing_waits()
            assert await connections(server, 2) == ["other", ""]
            assert await refused(address(server.url, NODES, key)) == 401

    run(main())


def test_node_keys_only_also_ends_the_connections_of_nodes_that_are_here_already(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server:
            key = await asyncio.to_thread(made, tmp_path)
            async with (
                connected(address(server.url, NODES)) as common,
                connected(address(server.url, NODES, key)) as own,
                connected(address(server.url)) as reader,
            ):
                await connections(server, 2)
                settings = server.services.settings.model_copy(update={"node_keys_only": True})
                server.services.apply(replace(server.services.config, settings=settings))
                assert (await common.goodbye())[0] == 1008
                await own.nothing_waits()
                assert (await reader.receive())["type"] == "connection_ack"
                assert await connections(server, 1) == ["workshop"]

    run(main())


def test_wrong_keys_of_nodes_block_an_address_like_other_wrong_keys(tmp_path: Path) -> None:
    async def main() -> None:
        config = (*CONFIG, "TrustedProxies=127.0.0.1")
        async with running(tmp_path, UPSTREAM, config=config) as server:
            key = await asyncio.to_thread(made, tmp_path)
            await asyncio.to_thread(revoke_node_key, tmp_path, "workshop")
            headers = {"X-Forwarded-For": "203.0.113.9"}
            for number in range(KEY_FAILURES):
                wrong = key if number % 2 else f"wrong-{number}"  # a revoked key is a wrong one
                assert await refused(address(server.url, NODES, wrong), additional_headers=headers) == 401
            good = await asyncio.to_thread(made, tmp_path)
            assert await refused(address(server.url, NODES, good), additional_headers=headers) == 403

    run(main())


def test_no_key_of_a_node_is_in_any_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=(*CONFIG, "DebugMode=true")) as server:
            key = await asyncio.to_thread(made, tmp_path)
            async with connected(address(server.url, NODES, key)):
                await connections(server, 1)
            await asyncio.to_thread(revoke_node_key, tmp_path, "workshop")
            assert await refused(address(server.url, NODES, key)) == 401
            ours = [record.getMessage() for record in caplog.records if not record.name.startswith("websockets.client")]
            assert not [line for line in ours if key in line]

    with caplog.at_level(logging.DEBUG):
        run(main())
