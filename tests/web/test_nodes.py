"""``GET /v1/nodes``: the connected nodes, for whoever has the key."""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.hub.nodes.state import NodeState
from app.web.app import create_app
from tests.web.asgi import BEARER, app_in, ask, services_in

STATES = (
    NodeState(
        "workshop", "0.1.0", "10.0.0.7", 1_800_000_000.5, ("Echo", "Dice"), ("gpu",), 1, 34, 2, 0.012, "timed out"
    ),
    NodeState("工作站", "", "::1", 1_800_000_001),
)


def test_they_need_the_key(tmp_path: Path) -> None:
    for path in ("/v1/nodes", "/V1/Nodes/"):
        assert asyncio.run(ask(app_in(tmp_path), "GET", path)).status == 401
        assert asyncio.run(ask(app_in(tmp_path), "GET", path, BEARER)).status == 200


def test_a_server_without_nodes_has_an_empty_list(tmp_path: Path) -> None:
    assert asyncio.run(ask(app_in(tmp_path), "GET", "/v1/nodes", BEARER)).json == {"nodes": []}


def test_every_node_is_told_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    services = services_in(tmp_path)
    services.nodes.list = lambda: STATES  # type: ignore[method-assign]  # any list will do
    answer = asyncio.run(ask(create_app(services), "GET", "/v1/nodes", BEARER))
    first, second = answer.json["nodes"]
    assert first == {
        "name": "workshop",
        "version": "0.1.0",
        "address": "10.0.0.7",
        "since": 1_800_000_000.5,
        "tools": ["Echo", "Dice"],
        "labels": ["gpu"],
        "running": 1,
        "calls": 34,
        "failures": 2,
        "latency": 0.012,
        "last_error": "timed out",
    }
    assert list(second) == list(first)
    assert (second["name"], second["latency"], second["tools"]) == ("工作站", None, [])
