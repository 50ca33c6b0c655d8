"""Names of nodes: quick reconnects, two with one name (D61, B32), names of keys (B15)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.extend import Event, NodeJoined, NodeLeft, SocketHandler, SocketRequest
from app.hub.clients import ClientType, encoded
from app.hub.hub import Hub
from app.hub.nodes.link import NodeLimits
from app.hub.nodes.manifests import node_name
from app.hub.nodes.nodes import NodeRules, Nodes
from app.plugins.far_manifest import far_tool
from app.protocol.node_names import NODE_NAME_CHARS, is_node_name
from tests.hub.nodes.wire_nodes import NODE_PATH, call, main_server, manifest, names, node, until
from tests.server import run


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("workshop", "workshop"),
        ("  My PC ", "My_PC"),
        ("家里的电脑", "家里的电脑"),
        ("a#b\x00c\nd", "a_b_c_d"),
        ("..up", "up"),
        ("x" * 500, "x" * NODE_NAME_CHARS),
        ("", ""),
        ("###", ""),
        (None, ""),
        (7, ""),
        (["a"], ""),
    ],
)
def test_a_name_is_made_fit_to_stand_before_a_mark(said: Any, name: str) -> None:
    assert node_name(said) == name


@given(st.text(max_size=80))
def test_every_name_is_fit_or_empty(said: str) -> None:
    name = node_name(said)
    assert name == "" or is_node_name(name)
    assert node_name(name) == name


def test_a_node_without_a_name_has_that_of_its_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, None, "Echo"):
            (name,) = names(server)
            assert name == f"dist-{server.services.hub.clients(ClientType.NODE)[0].id}"
            assert server.services.nodes.addressed(f"{name}#Echo") is not None

    run(main())


def test_an_answering_node_keeps_its_name_and_the_newcomer_gets_a_number(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "n", "Echo") as first:
            async with node(server, "n", "Echo") as second, node(server, "n", "Echo"):
                await until(lambda: len(names(server)) == 3)
                assert sorted(names(server)) == ["n", "n-2", "n-3"]
                running = [asyncio.create_task(call(server, f"n{tail}#Echo")) for tail in ("", "-2")]
                for far in (first, second):
                    await far.answer(await far.asked(), 1)
                assert all(result.ok for result in await asyncio.gather(*running))
            await until(lambda: names(server) == ["n"])

    run(main())


def test_many_who_want_one_name_at_the_same_moment_all_get_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, asyncio.TaskGroup() as group:
            leave = asyncio.Event()

            async def one() -> None:
                async with node(server, "n", "Echo"):
                    await leave.wait()

            for _ in range(30):
                group.create_task(one())
            await until(lambda: len(names(server)) == 30)
            expected = {"n", *(f"n-{number}" for number in range(2, 31))}
            assert set(names(server)) == expected
            leave.set()

    run(main())


class Line:
    """A connection whose answers to pings the test decides."""

    def __init__(self) -> None:
        self.address = "192.0.2.7"
        self.waiting = 0
        self.sent: list[bytes] = []
        self.handler: SocketHandler | None = None
        self.code: int | None = None
        self.pings: list[asyncio.Future[float | None]] = []

    def send(self, text: str | bytes) -> bool:
        if self.code is None:
            self.sent.append(text.encode() if isinstance(text, str) else text)
        return self.code is None

    def close(self, code: int = 1000, reason: str = "") -> None:
        if self.code is None:
            self.code = code
            for ping in self.pings:
                if not ping.done():
                    ping.set_result(None)
            assert self.handler is not None
            self.handler.closed(code)

    async def ping(self, seconds: float) -> float | None:
        ping: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()
        self.pings.append(ping)
        return await ping

    def hear(self, text: str) -> None:
        """The client sends this text."""
        assert self.handler is not None
        self.handler.text(text)

    def say(self, kind: str, **data: Any) -> None:
        self.hear(encoded({"type": kind, "data": data}).decode())

    def answers(self, seconds: float | None) -> None:
        self.pings.pop().set_result(seconds)


class Keys:
    """Keys of nodes as the file would say; the contract of :class:`app.hub.nodes.names.NodeRights`."""

    def __init__(self, lists: dict[str, set[str] | None]) -> None:
        self.lists = lists
        self.changed: list[Callable[[], None]] = []

    def allows(self, identity: str, tool: str) -> bool:
        if not identity:
            return True
        allowed = self.lists.get(identity, set())
        return allowed is None or tool in allowed

    def reserved(self, name: str) -> bool:
        return name in self.lists

    def on_change(self, told: Callable[[], None]) -> None:
        self.changed.append(told)


class Board:
    """The registry over scripted lines."""

    def __init__(self, keys: Keys | None = None) -> None:
        self.events: list[Event] = []
        numbers = iter(range(10_000))

        def new_id(kind: str) -> str:
            return f"{kind}-{next(numbers)}"

        async def store(plugin: str, task: str, body: Any) -> None:
            raise OSError

        self.hub = Hub(new_id=new_id, clock=lambda: 0.0, max_message_bytes=lambda _: 1, keys=lambda _: ())
        self.nodes = Nodes(
            self.hub,
            self,
            rules=lambda: NodeRules(NodeLimits(1 << 20, 1 << 20), 1 << 20, 1000, 30, head=False),
            read_manifest=far_tool,
            store=store,
            new_id=new_id,
            local_names=lambda: (),
            keys=keys,
            busy=lambda: 0.0,  # what is registered is read at once, however busy the machine is
        )

    def publish(self, event: Event) -> None:
        self.events.append(event)

    def line(self, name: str, *tools: str, identity: str = "") -> Line:
        line = Line()
        line.handler = self.hub.handler(ClientType.NODE, SocketRequest(NODE_PATH, line.address, identity=identity))
        line.handler.opened(line)
        line.say("register_tools", serverName=name, tools=[manifest(tool) for tool in tools])
        return line

    @property
    def names(self) -> list[str]:
        return [state.name for state in self.nodes.list()]


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_quick_reconnect_takes_the_name_in_one_step_and_never_loses_a_tool() -> None:
    async def main() -> None:
        board = Board()
        old = board.line("n", "Echo")
        lists = [set(board.nodes.tools())]
        board.nodes.changed(lambda: lists.append(set(board.nodes.tools())))
        new = board.line("n", "Echo")
        await settled()
        assert board.nodes.tools()["Echo"]
        old.answers(None)
        await settled()
        assert old.code == 1001
        assert board.names == ["n"]
        assert lists
        assert all(tools == {"Echo"} for tools in lists)
        assert [type(event) for event in board.events] == [NodeJoined, NodeLeft, NodeJoined]
        new.close()
        assert board.names == []

    run(main())


def test_what_a_new_connection_lacks_is_gone_and_goes_to_who_else_has_it() -> None:
    async def main() -> None:
        board = Board()
        old = board.line("n", "Echo", "Shared", "Gone")
        board.line("m", "Shared")
        board.line("n", "Echo")
        await settled()
        old.answers(None)
        await settled()
        assert {name: spec.origin for name, spec in board.nodes.tools().items()} == {
            "Echo": "node:n",
            "Shared": "node:m",
        }

    run(main())


def test_calls_on_a_replaced_connection_fail_at_once() -> None:
    async def main() -> None:
        board = Board()
        old = board.line("n", "Echo")
        held = board.nodes._names.nodes["n"]
        running = asyncio.create_task(held.request("Echo", {}, 60))
        board.line("n", "Echo")
        await settled()
        old.answers(None)
        (done,) = (await asyncio.wait([running]))[0]
        assert "replaced" in str(done.exception())

    run(main())


def test_a_newcomer_whose_rival_hangs_up_meanwhile_gets_the_name() -> None:
    async def main() -> None:
        board = Board()
        old = board.line("n", "Echo")
        new = board.line("n", "Echo")
        new.say("update_static_placeholders", placeholders={"{{K}}": "v"})
        await settled()
        old.close(1006)
        await settled()
        assert board.names == ["n"]
        assert board.nodes.placeholders.pattern.findall("{{K}}") == ["K"]

    run(main())


def test_a_newcomer_that_hangs_up_while_its_rival_is_asked_leaves_nothing() -> None:
    async def main() -> None:
        board = Board()
        old = board.line("n", "Echo")
        new = board.line("n", "Echo", "Other")
        await settled()
        new.close(1006)
        old.answers(None)
        await settled()
        assert board.names == ["n"]
        assert list(board.nodes.tools()) == ["Echo"]
        assert old.code is None

    run(main())


def test_two_newcomers_do_not_push_each_other_out() -> None:
    async def main() -> None:
        board = Board()
        old = board.line("n", "Echo")
        first, second = board.line("n", "Echo"), board.line("n", "Echo")
        await settled()
        old.answers(None)
        await settled()
        for line in (first, second):
            if line.pings:
                line.answers(0.001)
                await settled()
        for line in (first, second):
            if line.pings:
                line.answers(0.001)
                await settled()
        assert board.names == ["n", "n-2"]
        assert (first.code, second.code) == (None, None)

    run(main())


def test_there_is_a_limit_of_nodes_and_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hub.nodes.names.MAX_NODES", 3)
    monkeypatch.setattr("app.hub.nodes.names.MAX_SAME_NAME", 2)

    async def main() -> None:
        board = Board()
        lines = [board.line("n"), board.line("n")]
        await settled()
        lines[0].answers(0.1)
        await settled()
        third = board.line("n")
        await settled()
        lines[0].answers(0.1)
        await settled()
        lines[1].answers(0.1)
        await settled()
        assert third.code == 1013
        board.line("m")
        assert board.line("o").code == 1013
        assert board.names == ["n", "n-2", "m"]

    run(main())


def test_b15_who_has_a_key_is_the_node_of_that_name_whatever_it_says() -> None:
    async def main() -> None:
        board = Board(Keys({"forge": None}))
        board.line("other", "A", identity="forge")
        assert board.names == ["forge"]

    run(main())


def test_b15_nobody_takes_the_name_of_a_key() -> None:
    async def main() -> None:
        board = Board(Keys({"forge": None}))
        board.line("forge", "A")
        await settled()
        assert board.names == ["forge-2"]
        board.line("forge", "B", identity="forge")
        assert board.names == ["forge-2", "forge"]

    run(main())


def test_b15_a_key_made_later_takes_its_name_back() -> None:
    async def main() -> None:
        keys = Keys({})
        board = Board(keys)
        squatter = board.line("forge", "A")
        squatter.say("update_static_placeholders", placeholders={"{{K}}": "v"})
        keys.lists["forge"] = None
        board.line("x", "B", identity="forge")
        await settled()
        assert board.names == ["forge", "forge-2"]
        assert squatter.code is None
        assert set(board.nodes.tools()) == {"A", "B"}
        assert board.nodes.placeholders.pattern.findall("{{K}}") == ["K"]
        squatter.close()
        assert board.nodes.placeholders.pattern.findall("{{K}}") == []

    run(main())


def test_b15_a_list_of_tools_holds_at_registration_and_when_it_changes() -> None:
    async def main() -> None:
        keys = Keys({"forge": {"A"}})
        board = Board(keys)
        board.line("forge", "A", "B", identity="forge")
        assert list(board.nodes.tools()) == ["A"]
        assert board.nodes.addressed("forge#B") is None
        keys.lists["forge"] = {"B"}
        for told in keys.changed:
            told()
        assert list(board.nodes.tools()) == ["B"]
        assert [event.tools for event in board.events if isinstance(event, NodeJoined)] == [("A",), ("B",)]

    run(main())
