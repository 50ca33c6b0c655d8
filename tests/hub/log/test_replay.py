"""Devices that were away are told what they missed (spec 6.7)."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from app.extend import Pushed
from app.hub.log import replay
from app.hub.log.replay import LogReplay, ReplayPace
from app.hub.log.replay_file import REPLAY_FILE, Kept, MissedMessages, read_missed, write_missed
from tests.hub.clients import SOCKET_KEY, Wire, address, connected
from tests.server import Running, run, running
from tests.waiting import until

UPSTREAM = "http://127.0.0.1:9"
CONFIG = (f"VCP_Key={SOCKET_KEY}",)
AT_ONCE = ReplayPace(stable=0, between=0, write=0.005)


@asynccontextmanager
async def serving(home: Path, *config: str, pace: ReplayPace = AT_ONCE) -> AsyncIterator[Running]:
    async with running(home, UPSTREAM, config=(*CONFIG, *config)) as server:
        server.services.log_replay.pace = pace
        yield server


@asynccontextmanager
async def device(server: Running, name: str = "phone") -> AsyncIterator[Wire]:
    async with connected(address(server.url, query=f"?deviceName={quote(name)}")) as client:
        assert (await client.receive())["type"] == "connection_ack"
        yield client


def tell(server: Running, *texts: Any, kind: str = "note", target: str | None = "VCPLog") -> None:
    for text in texts:
        server.services.events.publish(Pushed("P", kind, text, target))


async def gone(server: Running, name: str = "phone") -> None:
    """The server has seen that the device has left."""
    await until(lambda: server.services.log_replay.connections(name) == 0)


async def replayed(client: Wire, count: int) -> list[Any]:
    return [(await client.receive())["data"] for _ in range(count)]


def test_a_device_that_was_away_gets_what_it_missed_in_order_and_marked(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:
            tell(server, "before anybody was known")
            async with device(server) as client:
                tell(server, "live")
                assert await client.receive() == {"type": "note", "data": "live"}
            await gone(server)
            tell(server, "one", "two", kind="missed")
            tell(server, "for others", target="VCPInfo")
            async with device(server) as client:
                first = await client.receive()
                recorded = first.pop("recordedAt")
                assert first == {"type": "missed", "data": "one", "replayed": True}
                assert recorded.startswith("20") and "T" in recorded
                assert await replayed(client, 1) == ["two"]
                await client.nothing_waits()
            await gone(server)
            async with device(server) as client:
                await client.nothing_waits()  # told once

    run(main())


def test_who_gives_no_name_gets_nothing_late_and_neither_do_clients_of_other_paths(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:
            for where in (
                address(server.url),
                address(server.url, query="?deviceName=%20"),
                address(server.url, query="?deviceName=" + "n" * 200),
                address(server.url, "/vcpinfo", query="?deviceName=phone"),
            ):
                async with connected(where):
                    pass
            assert not server.services.log_replay.wanted()

    run(main())


@pytest.mark.parametrize("parameter", ["device_name", "devicename"])
def test_other_spellings_of_the_parameter_name_a_device_too(tmp_path: Path, parameter: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:
            async with connected(address(server.url, query=f"?{parameter}=phone")) as client:
                await client.receive()
            assert server.services.log_replay.devices() == ("phone",)

    run(main())


@pytest.mark.parametrize("name", ["手机 1", "../../x", "a\0b\u202e", "n" * 128])
def test_a_device_may_have_any_name(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        for text in ("one", "two"):  # the second time it is known from the file
            async with serving(tmp_path) as server:
                if text == "one":
                    async with device(server, name):
                        pass
                    await gone(server, name)
                tell(server, text)
                assert server.services.log_replay.missed(name) == (1 if text == "one" else 2)
        found = read_missed(tmp_path / REPLAY_FILE)
        assert [entry[0] for entry in found.devices] == [name]

    run(main())


def test_a_connection_that_does_not_last_is_told_nothing_and_the_next_one_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, pace=ReplayPace(stable=60, between=0, write=60)) as server:
            async with device(server):
                pass
            await gone(server)
            tell(server, "one", "two")
            async with device(server) as flapping:
                await flapping.nothing_waits()
            await gone(server)
            assert server.services.log_replay.missed("phone") == 2

        async with serving(tmp_path) as server, device(server) as client:  # it was written down at the stop
            assert await replayed(client, 2) == ["one", "two"]

    run(main())


def test_a_device_with_two_connections_is_told_once_and_live_on_both(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, pace=ReplayPace(stable=0.05, between=0, write=60)) as server:
            async with device(server):
                pass
            await gone(server)
            tell(server, "missed")
            async with device(server) as one, device(server) as two:
                tell(server, "live")
                assert (await one.receive())["data"] == "live"
                assert (await two.receive())["data"] == "live"
                assert (await one.receive())["data"] == "missed"  # to the one that is open longest
                await two.nothing_waits()
                await one.connection.close()
                await until(lambda: server.services.log_replay.connections("phone") == 1)
                tell(server, "still there")
                assert (await two.receive())["data"] == "still there"
            await gone(server)
            assert server.services.log_replay.missed("phone") == 0

    run(main())


def test_when_a_connection_is_lost_in_the_middle_the_rest_comes_over_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, pace=ReplayPace(stable=0, between=0.02, write=60)) as server:
            async with device(server):
                pass
            await gone(server)
            tell(server, *range(20))
            async with device(server) as client:
                first = await replayed(client, 3)
            await gone(server)
            tell(server, 20)
            left = server.services.log_replay.missed("phone")
            assert 0 < left < 21
            async with device(server) as client:
                rest = await replayed(client, left)
                await client.nothing_waits()
            assert first == [0, 1, 2]
            assert rest == list(range(21 - left, 21))  # none twice, and in order

    run(main())


def test_the_newest_messages_are_kept_up_to_the_limits_of_now(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, "LogReplayCount=3") as server:
            async with device(server):
                pass
            async with device(server, "tablet"):
                pass
            await gone(server)
            await gone(server, "tablet")
            tell(server, *range(5))
            async with device(server) as client:
                assert await replayed(client, 3) == [2, 3, 4]
            await gone(server)
            tell(server, 5)
            assert server.services.log_replay.missed("phone") == 1
            assert server.services.log_replay.missed("tablet") == 3
            size = len('{"type":"note","data":0}')
            assert server.services.log_replay.size == 3 * size  # what two have missed is kept once

    run(main())


@pytest.mark.parametrize("setting", ["LogReplayCount=0", "LogReplayHours=0"])
def test_replay_can_be_switched_off(tmp_path: Path, setting: str) -> None:
    async def main() -> None:
        async with serving(tmp_path, setting) as server:
            async with device(server):
                pass
            tell(server, "one")
            assert not server.services.log_replay.wanted()
            async with device(server) as client:
                await client.nothing_waits()

    run(main())


class Alone:
    """A replay of its own beside the server's, with a clock of the test."""

    def __init__(self, server: Running, path: Path | None = None, count: int = 100, hours: float = 24) -> None:
        self.now = 1_800_000_000.0
        self.count = count
        self.replay = LogReplay(
            server.services.hub,
            path,
            clock=lambda: self.now,
            zone=server.services.in_force.zone,
            count=lambda: self.count,
            hours=lambda: hours,
            pace=AT_ONCE,
        )


def test_old_messages_large_ones_and_too_many_of_them_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_BYTES", 1000)
    monkeypatch.setattr(replay, "MAX_MESSAGE_BYTES", 500)

    async def main() -> None:
        async with serving(tmp_path, "LogReplayCount=0") as server:
            alone = Alone(server, hours=1)
            await alone.replay.start()
            async with device(server):
                pass
            await until(alone.replay.wanted)
            alone.replay.keep(b'{"type":"%s"}' % (b"x" * 500))
            assert alone.replay.missed("phone") == 0
            alone.replay.keep(b'{"type":"a"}')
            alone.now += 3000
            alone.replay.keep(b'{"type":"b"}')
            assert alone.replay.missed("phone") == 2
            alone.now += 1000
            alone.replay.keep(b'{"type":"c"}')
            assert alone.replay.missed("phone") == 2  # a is too old
            for _ in range(10):
                alone.replay.keep(b'{"type":"%s"}' % (b"y" * 300))
            assert alone.replay.missed("phone") == 3
            alone.count = 1
            alone.replay.keep(b'{"type":"d"}')
            assert alone.replay.missed("phone") == 1
            assert alone.replay.size == len(b'{"type":"d"}')
            async with device(server) as client:
                assert (await client.receive())["type"] == "d"
            await until(alone.replay.wanted)
            alone.replay.keep(b'{"type":"e"}')
            alone.now += replay.FORGET_SECONDS + 1
            alone.replay.keep(b'{"type":"f"}')
            assert not alone.replay.wanted()  # it did not come back for a month
            assert alone.replay.size == 0
            await alone.replay.stop()

    run(main())


def test_a_device_too_many_takes_the_place_of_the_one_that_is_away_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replay, "MAX_DEVICES", 2)

    async def main() -> None:
        async with serving(tmp_path, "LogReplayCount=0") as server:
            alone = Alone(server)
            await alone.replay.start()
            for name in ("one", "two"):
                alone.now += 1
                async with device(server, name):
                    pass
                await until(lambda name=name: alone.replay.connections(name) == 0)
            alone.replay.keep(b'{"type":"a"}')
            async with device(server, "three"), device(server, "two"), device(server, "four"):
                assert list(alone.replay.devices()) == ["two", "three"]
                assert alone.replay.missed("one") == 0
            await alone.replay.stop()

    run(main())
    assert "device 'one' is forgotten" in caplog.text
    assert "nothing is kept for another one" in caplog.text


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server:
            async with device(server):
                pass
            await gone(server)
            tell(server, "一", {"half": "\ud800"})
            async with device(server, "tablet"):  # connected when the server stops
                pass
        path = tmp_path / REPLAY_FILE
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with serving(tmp_path) as server:
            tell(server, "three")
            async with device(server) as client:
                assert await replayed(client, 3) == ["一", {"half": "\ud800"}, "three"]
            async with device(server, "tablet") as client:
                assert await replayed(client, 1) == ["three"]
            await gone(server)
            await gone(server, "tablet")
        assert read_missed(path).messages == {}

    run(main())


def test_it_is_written_down_soon_so_that_a_kill_costs_seconds_only(tmp_path: Path) -> None:
    path = tmp_path / REPLAY_FILE

    async def main() -> None:
        async with serving(tmp_path) as server:
            async with device(server):
                pass
            await gone(server)
            for number in range(30):
                tell(server, number)
            await until(lambda: len(read_missed(path).messages) == 30)
            assert [entry[0] for entry in read_missed(path).devices] == ["phone"]

    run(main())


def test_a_full_disk_costs_nothing_but_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(tmp_path, "ServerLog=false") as server:
            full = True
            real = os.fsync

            def fsync(descriptor: int) -> None:
                if full:
                    raise OSError(errno.ENOSPC, "No space left on device")
                real(descriptor)

            monkeypatch.setattr(os, "fsync", fsync)
            async with device(server):
                pass
            await gone(server)
            tell(server, "one")
            await until(lambda: "cannot be written down" in caplog.text)
            tell(server, "two")
            full = False
            tell(server, "three")
            await until(lambda: len(read_missed(tmp_path / REPLAY_FILE).messages) == 3)
            async with device(server) as client:
                assert await replayed(client, 3) == ["one", "two", "three"]

    run(main())
    assert caplog.text.count("cannot be written down") == 1
    assert [path for path in (tmp_path / ".vcp").iterdir() if path.name.endswith(".tmp")] == []


NONSENSE = [
    b"",
    b"\x00\xff",
    b"[]",
    b"null",
    b'{"devices":',
    b"[" * 100_000,
    b'{"devices":{},"messages":7}',
    b'{"devices":[1,null,{},{"name":1},{"name":"x","seen":"now","missed":[]},{"name":"x","seen":1,"missed":{}}]}',
    b'{"messages":[1,{"number":"1"},{"number":true,"at":1,"message":{"type":"x"}},{"number":1,"at":1,"message":[]}]}',
    b'{"messages":[{"number":1,"at":1,"message":{}}],"devices":[{"name":"","seen":1,"missed":[1,2]}]}',
    b'{"messages":[{"number":1' + b"0" * 400 + b',"at":1,"message":{"type":"x"}}]}',
]


@pytest.mark.parametrize("content", NONSENSE)
def test_a_file_that_makes_no_sense_holds_no_message(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "missed.json"
    path.write_bytes(content)
    found = read_missed(path)
    assert not found.messages
    assert all(name == "" for name, _seen, _missed in found.devices)


@pytest.mark.parametrize("content", [NONSENSE[0], NONSENSE[5], NONSENSE[9]], ids=["empty", "deep", "nameless"])
def test_a_server_with_such_a_file_begins_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / REPLAY_FILE
    path.parent.mkdir()
    path.write_bytes(content)

    async def main() -> None:
        async with serving(tmp_path) as server:
            assert server.services.log_replay.devices() == ()
            async with device(server) as client:
                await client.nothing_waits()
            await gone(server)
            tell(server, "one")
            async with device(server) as client:
                assert await replayed(client, 1) == ["one"]

    run(main())


def test_what_is_right_in_a_file_counts_and_what_is_wrong_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / REPLAY_FILE
    path.parent.mkdir()
    message = {"number": 7, "at": 1_800_000_000, "message": {"type": "x", "data": "数"}}
    devices = [{"name": "phone", "seen": 5, "missed": [7, 7.5, "7", True, 99, 10**400]}, "wrong"]
    path.write_text(json.dumps({"devices": devices, "messages": [message, {"number": 8}]}), encoding="utf-8")
    found = read_missed(path)
    assert [(name, seen, list(missed)) for name, seen, missed in found.devices] == [("phone", 5.0, [7, 7, 99])]
    assert {number: (kept.at, kept.data) for number, kept in found.messages.items()} == {
        7: (1_800_000_000, '{"type":"x","data":"数"}'.encode())
    }


@pytest.mark.parametrize("what", ["folder", "huge", "missing"])
def test_a_file_that_cannot_be_read_holds_nothing(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.hub.log.replay_file.MAX_FILE_BYTES", 100)
    path = tmp_path / "missed.json"
    if what == "folder":
        path.mkdir()
    elif what == "huge":
        path.write_bytes(b'{"devices":[' + b" " * 200 + b"]}")
    with caplog.at_level(logging.WARNING):
        assert read_missed(path) == MissedMessages()
    assert bool(caplog.text) == (what != "missing")


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state" / "missed.json"
    kept = {3: Kept(1.5, b'{"type":"a"}'), 4: Kept(2, '{"type":"b","data":"\\ud800 二"}'.encode())}
    missed = MissedMessages((("phone", 1.25, (3, 4)), ("手\ud800机", 2.0, ())), kept)
    write_missed(path, missed)
    found = read_missed(path)
    assert found.devices == missed.devices
    assert {number: (one.at, json.loads(one.data)) for number, one in found.messages.items()} == {
        number: (one.at, json.loads(one.data)) for number, one in kept.items()
    }


def test_a_device_that_is_here_at_the_stop_counts_as_seen_until_then(tmp_path: Path) -> None:
    """The days for which it is remembered begin with its last moment."""

    async def main() -> None:
        async with AsyncExitStack() as there:
            async with serving(tmp_path, pace=ReplayPace(stable=0, between=0, write=60)) as server:
                await there.enter_async_context(device(server))
                here = time.time()
            ((name, seen, missed),) = read_missed(tmp_path / REPLAY_FILE).devices
            assert (name, list(missed)) == ("phone", [])
            assert seen >= here

    run(main())
