"""Whatever a client sends: nothing is raised, and what is no message changes nothing (spec 6.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.extend import SocketRequest
from app.hub.chrome import Chrome
from app.hub.clients import MAX_VALUES, ClientType, decoded
from app.hub.hub import PATHS, Hub

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)
TYPES = st.sampled_from(["heartbeat", "command", "command_result", "vcp_log"]) | st.text(max_size=10)
MESSAGES = st.fixed_dictionaries({"type": TYPES, "data": JSON})
FRAMES = st.text(max_size=200) | (JSON | MESSAGES).map(json.dumps)


class Kept:
    """A connection that keeps what is sent."""

    address, waiting = "192.0.2.1", 0

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, text: str | bytes) -> bool:
        self.sent.append(json.loads(text))
        return True

    def close(self, code: int = 1000, reason: str = "") -> None:
        raise AssertionError("the connection lives")

    async def ping(self, seconds: float) -> float | None:
        return None


@settings(max_examples=40)
@given(kind=st.sampled_from(sorted(PATHS)), frames=st.lists(FRAMES, max_size=3), data=st.binary(max_size=50))
def test_no_frame_breaks_a_channel(kind: ClientType, frames: list[str], data: bytes) -> None:
    hub = Hub(new_id=lambda word: word, clock=lambda: 1.5, max_message_bytes=lambda _kind: 1, keys=lambda _kind: ())
    Chrome(hub, lambda: 1.5)
    handler, socket = hub.handler(kind, SocketRequest(PATHS[kind], "192.0.2.1")), Kept()
    handler.opened(socket)
    before = len(socket.sent)
    for frame in frames:
        handler.text(frame)
    handler.binary(data)
    answers = socket.sent[before:]
    if kind not in (ClientType.CHROME_OBSERVER, ClientType.CHROME_CONTROL):
        assert answers == []
    assert {answer["type"] for answer in answers} <= {"heartbeat_ack", "command_result"}
    assert hub.count(kind) == 1
    handler.closed(1000)
    assert hub.count(kind) == 0


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"type":' + "9" * 5000 + "}", "\ud800", '{"a":"\\ud800']
)
def test_what_is_no_object_is_none(text: str) -> None:
    assert decoded(text) is None


def test_numbers_and_halves_that_one_reader_does_not_know_are_read_by_the_other() -> None:
    assert decoded('{"type":"\\ud800"}') == {"type": "\ud800"}
    assert decoded('{"n":123456789012345678901234567890}') is not None


@pytest.mark.parametrize("unit", ["[]", "{}", "1", '"a"', "NaN", '{"a":1}'])
def test_a_message_with_too_many_values_is_not_read(unit: str, caplog: pytest.LogCaptureFixture) -> None:
    hub = Hub(new_id=lambda word: word, clock=lambda: 1.5, max_message_bytes=lambda _kind: 1, keys=lambda _kind: ())
    heard: list[object] = []
    hub.heard(ClientType.NODE, "tool_result", lambda _client, message: heard.append(message))
    handler = hub.handler(ClientType.NODE, SocketRequest(PATHS[ClientType.NODE], "192.0.2.1"))
    handler.opened(Kept())
    handler.text('{"type":"tool_result","data":[' + f"{unit}," * MAX_VALUES + f"{unit}]}}")
    assert heard == []
    assert "with too many values; ignored" in caplog.text
    handler.text('{"type":"tool_result","data":"' + "QUJD" * MAX_VALUES + '"}')
    assert len(heard) == 1, "a file of any length is one value"
