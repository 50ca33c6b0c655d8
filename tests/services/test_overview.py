"""What runs beside the server for the panel: samples and their file, checks in a thread, the restart (D87)."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from app.config import durable
from app.config.snapshot import Config
from app.errors import ConfigError
from app.extend import Reloaded, TurnStarted
from app.services import overview
from app.services.attention import Attention, Kind
from app.services.overview import HISTORY_FILE, Checked
from app.services.restarting import Restart, RestartUnavailableError
from tests.waiting import until
from tests.web.asgi import services_in


def filled(series: object) -> list[float]:
    assert isinstance(series, list)
    return [value for value in series if value is not None]


def test_samples_are_taken_and_kept_for_the_next_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(overview, "TICK_SECONDS", 0.001)

    async def main() -> None:
        first = services_in(tmp_path)
        async with first.overview.running():
            first.events.publish(TurnStarted("t", "m", True, None))
            await until(lambda: sum(filled(first.overview.history.told("hour").series["turns"])) == 1)
        assert (tmp_path / HISTORY_FILE).stat().st_mode & 0o777 == 0o600
        second = services_in(tmp_path)
        async with second.overview.running():
            assert sum(filled(second.overview.history.told("week").series["turns"])) == 1
            assert filled(second.overview.history.told("hour").series["memory"])[0] > 1_000_000

    asyncio.run(main())


@pytest.mark.parametrize("data", [b"", b"garbage", b"x" * 1000])
def test_a_damaged_file_costs_the_numbers_and_nothing_else(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, data: bytes
) -> None:
    async def main() -> None:
        services = services_in(tmp_path)
        (tmp_path / HISTORY_FILE).parent.mkdir(exist_ok=True)
        (tmp_path / HISTORY_FILE).write_bytes(data)
        async with services.overview.running():
            assert "begin anew" in caplog.text
        again = services_in(tmp_path)
        caplog.clear()
        async with again.overview.running():
            assert "begin anew" not in caplog.text

    asyncio.run(main())


def test_a_disk_that_takes_nothing_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def full(*_: object) -> tuple[Path, int]:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        services = services_in(tmp_path)
        monkeypatch.setattr(durable, "open_temporary", full)
        async with services.overview.running():
            pass
        assert "No space left" in caplog.text

    asyncio.run(main())


def test_one_check_runs_at_a_time_and_is_remembered_until_something_changes() -> None:
    async def main() -> None:
        moment, checks, go = [0.0], [0], threading.Event()
        found = [Attention(Kind.BAD, "坏", "bad")]

        def check() -> list[Attention]:
            checks[0] += 1
            go.wait(30)
            return list(found)

        checked = Checked(lambda: moment[0])
        assert await checked.findings() is None
        checked.check_with(check)
        both = asyncio.gather(checked.findings(), checked.findings())
        await until(lambda: checks[0])
        go.set()
        first, second = await both
        assert first == second == found
        assert await checked.findings() == found
        assert checks == [1]
        checked.outdated()
        found.clear()
        assert await checked.findings() == []
        moment[0] += 61
        await checked.findings()
        assert checks == [3]
        await checked.stop()

    asyncio.run(main())


def test_a_check_that_takes_long_or_fails_leaves_what_the_last_one_found(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(overview, "CHECK_WAIT_SECONDS", 0.01)

    async def main() -> None:
        go = threading.Event()
        checked = Checked(lambda: 0.0)
        checked.check_with(lambda: [Attention(Kind.WARN, "一", "one")])
        monkeypatch.setattr(overview, "CHECK_WAIT_SECONDS", 5)
        first = await checked.findings()
        assert first

        def slow() -> list[Attention]:
            go.wait(30)
            raise OSError("gone")

        monkeypatch.setattr(overview, "CHECK_WAIT_SECONDS", 0.01)
        checked.check_with(slow)
        checked.outdated()
        assert await checked.findings() == first
        go.set()
        await until(lambda: "cannot be checked" in caplog.text)
        assert await checked.findings() == first
        await checked.stop()

    asyncio.run(main())


def test_problems_of_a_reload_are_kept_until_the_next_and_those_of_loading_are_none(tmp_path: Path) -> None:
    async def main() -> None:
        services = services_in(tmp_path)
        services.events.publish(Reloaded(("config.env",), ("config.env:3: half written",)))
        services.events.publish(Reloaded(("plugins",), ("X: cannot be loaded",)))
        assert list(services.overview.reload_problems) == ["config.env:3: half written"]
        services.events.publish(Reloaded(("config.env",)))
        assert list(services.overview.reload_problems) == []

    asyncio.run(main())


def test_a_restart_needs_somebody_who_starts_again_and_a_configuration_that_does(tmp_path: Path) -> None:
    async def main() -> None:
        services = services_in(tmp_path, "PORT=0")
        begun: list[str] = []

        def refusing() -> Config:
            raise ConfigError("no such file")

        restart = Restart(lambda: services.config)
        with pytest.raises(RestartUnavailableError):
            await restart.ask()
        restart.on_asked(lambda: begun.append("again"))
        assert [await restart.ask(), await restart.ask()] == [True, False]
        assert begun == ["again"]
        broken = Restart(refusing)
        broken.on_asked(lambda: begun.append("broken"))
        with pytest.raises(ConfigError):
            await broken.ask()
        assert (broken.asked, begun) == (False, ["again"])

    asyncio.run(main())


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (("HOST=999.1.1.1",), "HOST"),
        (("HOST=192.0.2.1",), "HOST"),
        (("PORT=0", "ToolSocketPort=9", "ToolSocketHost=192.0.2.1", "ToolSocketToken=of-a-test"), "ToolSocketHost"),
    ],
)
def test_no_restart_with_an_address_that_this_machine_does_not_have(
    tmp_path: Path, lines: tuple[str, ...], named: str
) -> None:
    async def main() -> None:
        services = services_in(tmp_path, *lines)
        restart = Restart(lambda: services.config)
        restart.on_asked(lambda: None)
        with pytest.raises(ConfigError, match=f"cannot listen on .* change {named}"):
            await restart.ask()
        assert not restart.asked

    asyncio.run(main())


def test_the_port_that_the_server_itself_has_is_no_reason_against_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as own:
            services = services_in(tmp_path, "HOST=127.0.0.1", f"PORT={own.getsockname()[1]}")
            restart = Restart(lambda: services.config)
            restart.on_asked(lambda: None)
            assert await restart.ask()

    asyncio.run(main())
