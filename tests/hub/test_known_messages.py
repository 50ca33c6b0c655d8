"""Messages of known types with whatever in their fields, from nodes, people and devices, at a whole server."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.hub.clients import ClientType
from tests.hub.clients import address, connected
from tests.hub.nodes.wire_nodes import call, main_server, manifest, node
from tests.hub.test_frames import JSON
from tests.server import run

WORDS = st.sampled_from(
    [
        "",
        "attic",
        "Echo",
        "attic#Echo",
        "internal_request_file",
        "../x",
        "\x00",
        "success",
        "error",
        "{{VCPEcho}}",
        "云",
    ]
)
VALUES = JSON | WORDS | st.lists(WORDS, max_size=3) | st.dictionaries(WORDS, WORDS, max_size=3)
MANIFESTS = st.builds(
    lambda name, changed: {**manifest(name), **changed},
    WORDS,
    st.dictionaries(
        st.sampled_from(["name", "displayName", "pluginType", "entryPoint", "communication", "capabilities", "labels"]),
        VALUES,
        max_size=2,
    ),
)


def said(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A message of a type; each field is right, or something else, or missing."""
    data = st.fixed_dictionaries({}, optional={name: right | VALUES for name, right in fields.items()})
    return st.fixed_dictionaries({"type": st.just(kind), "data": data | JSON})


FROM_NODES = (
    said(
        "register_tools",
        serverName=WORDS,
        tools=st.lists(MANIFESTS | VALUES, max_size=3),
        capabilities=st.dictionaries(WORDS, JSON, max_size=2),
        labels=st.lists(WORDS, max_size=3),
        version=WORDS,
    )
    | said("report_ip", serverName=WORDS, localIPs=st.lists(WORDS, max_size=3), publicIP=WORDS)
    | said("update_static_placeholders", serverName=WORDS, placeholders=st.dictionaries(WORDS, VALUES, max_size=3))
    | said("tool_result", requestId=WORDS, status=WORDS, result=JSON, error=WORDS)
    | said(
        "plugin_callback_forward",
        serverName=WORDS,
        callbackData=st.fixed_dictionaries({}, optional={"pluginName": WORDS, "taskId": WORDS, "requestId": VALUES}),
    )
)
FROM_PEOPLE = said("tool_approval_response", requestId=WORDS, approved=st.booleans(), reason=WORDS)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.large_base_example])
@given(
    nodes=st.lists(FROM_NODES, min_size=20, max_size=60),
    people=st.lists(FROM_PEOPLE | FROM_NODES, min_size=5, max_size=20),
)
def test_no_field_of_any_message_breaks_a_connection_or_another_node(
    caplog: pytest.LogCaptureFixture, nodes: list[dict[str, Any]], people: list[dict[str, Any]]
) -> None:
    caplog.set_level(logging.ERROR)

    async def main(home: Path) -> None:
        async with (
            main_server(home, "SocketFramesPerSecond=10000") as server,
            node(server, "good", "Good") as good,
            node(server) as bad,
            connected(address(server.url)) as log,
            good.answering(lambda _: "done"),
        ):
            for message in nodes:
                await bad.send(json.dumps(message))
            for message in people:
                await log.send(json.dumps(message))
            for wire in (bad, log):
                await (await wire.connection.ping())
            assert (await call(server, "good#Good", text="x")).ok
            assert server.services.hub.count(ClientType.NODE) == 2
            assert server.services.hub.count(ClientType.VCP_LOG) == 1
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    with tempfile.TemporaryDirectory() as folder:
        run(main(Path(folder)))
