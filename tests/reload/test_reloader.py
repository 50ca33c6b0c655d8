"""One reload: what is put in force, what stays, what is told, and that it happens whole (spec 5.11, B28, P65, P68)."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from app.config.home_folders import make_home
from app.config.snapshot import load
from app.extend import Event, Reloaded
from app.plugins.discovery import PluginSet
from app.services import Services
from tests.reload.files import DIRECT, add_plugin, manifest_of, save, tree
from tests.server import run
from tests.waiting import until

BASE = ("API_URL=http://127.0.0.1:9", "Key=k")


def installed(home: Path, *config: str, environ: Mapping[str, str] | None = None) -> tuple[Services, list[Event]]:
    """Services over a home that exists on disk, and the events of reloads."""
    make_home(home)
    save(home / "config.env", *BASE, *config)
    read = partial(load, home, environ or {})
    services = Services(read(), "k", read_config=read)
    events: list[Event] = []
    services.events.listen(events.append, Reloaded)
    return services, events


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_nothing_changed_is_no_event_no_line_and_no_new_parts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        services, events = installed(tmp_path)
        parts, config, found = services.turn_parts, services.config, services.found_plugins
        assert await services.reload() == Reloaded(())
        assert (services.turn_parts, services.config, services.found_plugins) == (parts, config, found)
        assert services.turn_parts is parts
        assert (events, lines(caplog)) == ([], [])

    run(main())


def test_a_change_is_in_force_told_in_one_line_and_published_without_values(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        services, events = installed(tmp_path, "VarX=old-secret")
        parts = services.turn_parts
        save(tmp_path / "config.env", *BASE, "VarX=new-secret", "ShowVCP=true")
        add_plugin(tmp_path, "Echo")
        done = await services.reload(["agent_map.json"])
        assert done.parts == ("config.env: VarX, ShowVCP", "plugins: added Echo", "agent_map.json")
        assert events == [done]
        assert lines(caplog) == [
            "reloaded: config.env: VarX, ShowVCP | plugins: added Echo | agent_map.json",
        ]
        assert services.settings.show_vcp
        assert "Echo" in services.router.specs()
        assert services.turn_parts is not parts

    run(main())


def test_the_process_environment_wins_at_a_reload_too(tmp_path: Path) -> None:
    async def main() -> None:
        services, events = installed(tmp_path, environ={"ShowVCP": "false", "VarX": ""})
        save(tmp_path / "config.env", *BASE, "ShowVCP=true", "VarX=file")
        await services.reload()
        assert not services.settings.show_vcp
        assert services.plugin_environ()["VarX"] == ""
        assert events == []

    run(main())


@pytest.mark.parametrize("spoil", ["empty", "gone", "open quote", "folder", "bytes", "unreadable address"])
def test_a_config_that_is_no_good_keeps_the_old_one_and_is_told_once_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: str
) -> None:
    """P89, and the half-written file of spec 5.11."""
    path = tmp_path / "config.env"

    async def main() -> None:
        services, events = installed(tmp_path, "VarX=one")
        before = services.config
        path.unlink()
        if spoil == "empty":
            path.touch()
        elif spoil == "open quote":
            save(path, *BASE, 'VarX="tw')
        elif spoil == "folder":
            path.mkdir()
        elif spoil == "bytes":
            path.write_bytes(b"VarX=two\nVarY=\xff\xff\n")
        elif spoil == "unreadable address":
            save(path, *BASE, 'API_Key="a\nb"', "VarX=two")
        for _ in range(3):
            await services.reload()
        assert services.config is before
        (told,) = lines(caplog)
        assert "stay" in told
        assert str(path) in told or "API_Key" in told
        if spoil == "open quote":
            assert f"{path}:3: VarX: " in told
        assert [event.parts for event in events if isinstance(event, Reloaded)] == [()]
        if spoil == "folder":
            path.rmdir()
        save(path, *BASE, "VarX=three")
        await services.reload()
        assert services.config.environ["VarX"] == "three"
        assert sum("no problem any more" in line for line in lines(caplog)) == 1
        assert len(lines(caplog)) == 3

    run(main())


def test_a_setting_with_a_wrong_value_is_told_when_it_comes_and_when_it_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        services, _ = installed(tmp_path)
        save(tmp_path / "config.env", *BASE, "MaxVCPLoopStream=abc")
        await services.reload()
        await services.reload()
        assert f"{tmp_path / 'config.env'}:3: MaxVCPLoopStream: " in lines(caplog)[0]
        save(tmp_path / "config.env", *BASE)
        await services.reload()
        assert [line.split(":")[0] for line in lines(caplog)[1:]] == ["reloaded", "no problem any more", "reloaded"]

    run(main())


def test_a_setting_that_needs_a_restart_is_named_once_and_stays_for_everybody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        services, _ = installed(tmp_path, "PORT=7000")
        for value in ("x=1", "x=2"):
            save(tmp_path / "config.env", *BASE, "PORT=8000", "Key=other-key", value)
            await services.reload()
        assert sum("takes effect after a restart" in line for line in lines(caplog)) == 1
        assert "Key, PORT: changed; takes effect after a restart" in lines(caplog)
        assert "other-key" not in caplog.text
        assert services.settings.port == 7000
        assert services.plugin_environ()["PORT"] == "7000"
        assert services.plugin_environ()["Key"] == "k"
        save(tmp_path / "config.env", *BASE, "PORT=7000")
        await services.reload()
        save(tmp_path / "config.env", *BASE, "PORT=9000")
        await services.reload()
        assert sum("takes effect after a restart" in line for line in lines(caplog)) == 2
        assert not [line for line in lines(caplog) if line.startswith("reloaded") and "PORT" in line]

    run(main())


def test_a_placeholder_key_is_refused_while_other_machines_get_in(tmp_path: Path) -> None:
    async def main() -> None:
        services, _ = installed(tmp_path, "HOST=0.0.0.0", "Image_Key=mine")
        save(tmp_path / "config.env", *BASE, "HOST=127.0.0.1", "Image_Key=please-change-me")
        done = await services.reload()
        assert any("Image_Key" in problem for problem in done.problems)
        assert services.settings.image_key == "mine"

    run(main())


# ---------------------------------------------------------------- Plugins


class Host:
    """Something that runs plugins, and what it was told."""

    def __init__(self, fails: bool = False) -> None:
        self.sets: list[PluginSet] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = fails
        self.at_work = 0

    async def replace(self, plugins: PluginSet) -> None:
        self.at_work += 1
        await self.gate.wait()
        self.at_work -= 1
        if self.fails:
            raise ZeroDivisionError("faulty")
        self.sets.append(plugins)


def with_hosts(services: Services, *hosts: Host) -> None:
    services.plugin_hosts = (*services.plugin_hosts, *hosts)


def test_plugins_come_change_and_go_and_the_others_are_the_same_objects(tmp_path: Path) -> None:
    """B28: what did not change is equal to what it was, so that its host leaves it alone."""

    async def main() -> None:
        for name in ("Same", "Gone", "Edited"):
            add_plugin(tmp_path, name)
        services, _ = installed(tmp_path)
        host = Host()
        with_hosts(services, host)
        before = {plugin.name: plugin for plugin in services.found_plugins.plugins}
        add_plugin(tmp_path, "Edited", description="new")
        blocked = tmp_path / "Plugin" / "Gone" / "plugin-manifest.json"
        blocked.rename(blocked.with_name("plugin-manifest.json.block"))
        done = await services.reload()
        assert done.parts == ("plugins: changed Edited; removed Gone",)
        now = {plugin.name: plugin for plugin in host.sets[0].plugins}
        assert now["Same"] == before["Same"]
        assert now["Edited"] != before["Edited"]
        assert "Gone" not in services.router.specs()
        blocked.with_name("plugin-manifest.json.block").rename(blocked)
        assert (await services.reload()).parts == ("plugins: added Gone",)

    run(main())


def test_a_half_written_manifest_keeps_the_plugin_until_the_rest_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P68."""

    async def main() -> None:
        path = add_plugin(tmp_path, "Echo", description="old") / "plugin-manifest.json"
        services, _ = installed(tmp_path)
        text = manifest_of("Echo", description="new")
        path.write_text(text[: len(text) // 2], encoding="utf-8")
        for _ in range(2):
            done = await services.reload()
            assert done.parts == ()
        assert sum("Echo stays as it was" in line for line in lines(caplog)) == 1
        assert "Echo" in services.router.specs()
        path.write_text(text, encoding="utf-8")
        assert (await services.reload()).parts == ("plugins: changed Echo",)
        assert "no problem any more" in caplog.text

    run(main())


@pytest.mark.parametrize("spoil", ["open quote", "too large", "folder"])
def test_a_plugins_own_settings_are_read_anew_and_half_written_ones_keep_the_old(tmp_path: Path, spoil: str) -> None:
    """P65, P68."""
    path = tmp_path / "Plugin" / "Echo" / "config.env"

    def own(services: Services) -> Mapping[str, str]:
        return next(plugin.own for plugin in services.found_plugins.plugins if plugin.name == "Echo")

    async def main() -> None:
        add_plugin(tmp_path, "Echo")
        path.write_bytes(b'A="one" # note\r\n')
        services, _ = installed(tmp_path, "A=main")
        assert own(services) == {"A": "one"}
        path.unlink()
        if spoil == "folder":
            path.mkdir()
        else:
            path.write_text('A="tw\n' if spoil == "open quote" else "A=2\n" * 1_200_000, encoding="utf-8")
        done = await services.reload()
        assert own(services) == {"A": "one"}
        assert any(str(path) in problem for problem in done.problems)
        if spoil == "folder":
            path.rmdir()
        save(path, "A=three")
        assert (await services.reload()).parts == ("plugins: changed Echo",)
        assert own(services) == {"A": "three"}
        path.unlink()
        await services.reload()
        assert own(services) == {}

    run(main())


def test_the_settings_of_a_ported_node_module_survive_its_half_written_manifest(tmp_path: Path) -> None:
    """D37 with P68: the port goes on with the folder of the installation."""

    async def main() -> None:
        node = {"entryPoint": {"type": "nodejs", "script": "x.js"}, "communication": {"protocol": "direct"}}
        folder = add_plugin(tmp_path, "SciCalculator", **node)
        save(folder / "config.env", "SciCalculatorSeconds=3")
        services, _ = installed(tmp_path)
        before = services.found_plugins
        assert [plugin.folder for plugin in before.ported] == [folder]
        (folder / "plugin-manifest.json").write_text("{", encoding="utf-8")
        await services.reload()
        assert services.found_plugins.plugins == before.plugins

    run(main())


def test_edited_code_of_an_in_process_plugin_makes_it_another_one(tmp_path: Path) -> None:
    async def main() -> None:
        folder = add_plugin(tmp_path, "Inner", **DIRECT)
        save(folder / "main.py", "x = 1")
        services, _ = installed(tmp_path)
        save(folder / "main.py", "x = 2")
        assert (await services.reload()).parts == ("plugins: changed Inner",)

    run(main())


def test_a_new_picture_key_is_in_the_prompts_of_the_next_turn(tmp_path: Path) -> None:
    async def main() -> None:
        folder = add_plugin(tmp_path, "ImageServer")
        services, _ = installed(tmp_path, "Image_Key=main")

        async def key() -> object:
            body = {"messages": [{"role": "system", "content": "{{Image_Key}}"}]}
            prepared = await services.turn_parts.preparation.prepare(body, "m", "t")
            return prepared.body["messages"][0]["content"]

        assert await key() == "main"
        save(folder / "config.env", "Image_Key=own")
        await services.reload()
        assert await key() == "own"

    run(main())


def test_a_host_that_fails_does_not_keep_the_others_from_changing_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        services, _ = installed(tmp_path)
        faulty, good = Host(fails=True), Host()
        with_hosts(services, faulty, good)
        add_plugin(tmp_path, "Echo")
        await services.reload()
        assert len(good.sets) == 1
        assert "Host could not change over" in caplog.text

    run(main())


def test_a_new_configuration_is_told_to_the_hosts_too_since_plugins_read_it(tmp_path: Path) -> None:
    async def main() -> None:
        services, _ = installed(tmp_path)
        host = Host()
        with_hosts(services, host)
        await services.reload()
        assert host.sets == []
        save(tmp_path / "config.env", *BASE, "WeatherKey=1")
        await services.reload()
        assert host.sets == [services.found_plugins]

    run(main())


# ---------------------------------------------------------------- One at a time


def test_all_who_ask_during_a_reload_share_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        services, events = installed(tmp_path)
        host = Host()
        with_hosts(services, host)
        host.gate.clear()
        add_plugin(tmp_path, "A")
        first = asyncio.create_task(services.reload())
        await until(lambda: host.at_work == 1)
        add_plugin(tmp_path, "B")
        others = [asyncio.create_task(services.reload([f"f{number % 3}"])) for number in range(50)]
        await asyncio.sleep(0)
        others[0].cancel()  # who does not wait any longer does not end it for the others
        assert host.at_work == 1
        host.gate.set()
        assert (await first).parts == ("plugins: added A",)
        results = await asyncio.gather(*others[1:])
        assert {id(result) for result in results} == {id(results[0])}
        assert results[0].parts == ("plugins: added B", "f0", "f1", "f2")
        assert len(host.sets) == 2
        assert len(events) == 2

    run(main())


def test_a_stop_ends_a_reload_that_waits_for_a_host(tmp_path: Path) -> None:
    async def main() -> None:
        services, _ = installed(tmp_path)
        host = Host()
        host.gate.clear()
        with_hosts(services, host)
        async with services.running_parts():
            add_plugin(tmp_path, "A")
            asking = asyncio.create_task(services.reload())
            await until(lambda: host.at_work == 1)
        with pytest.raises(asyncio.CancelledError):
            await asking

    run(main())


def test_a_host_that_never_ends_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.services.plugin_hosts.REPLACE_SECONDS", 0.01)

    async def main() -> None:
        services, _ = installed(tmp_path)
        host = Host()
        host.gate.clear()
        with_hosts(services, host)
        add_plugin(tmp_path, "A")
        assert (await services.reload()).parts == ("plugins: added A",)
        assert "A" in services.router.specs()
        assert "Host could not change over" in caplog.text

    run(main())


def test_a_reload_touches_nothing_on_disk(tmp_path: Path) -> None:
    """So a kill -9 at any moment of it leaves everything as it was."""

    async def main() -> None:
        services, _ = installed(tmp_path)
        add_plugin(tmp_path, "Echo")
        save(add_plugin(tmp_path, "Inner", **DIRECT) / "main.py", "x = 1")
        save(tmp_path / "config.env", *BASE, "VarX=1", "bad=1")
        save(tmp_path / "Plugin" / "Broken" / "plugin-manifest.json", "{")
        before = tree(tmp_path)
        assert (await services.reload()).parts
        assert tree(tmp_path) == before

    run(main())


def test_a_thousand_changed_plugins_are_one_reload_with_a_short_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        services, _ = installed(tmp_path)
        for number in range(500):
            add_plugin(tmp_path, f"P{number}")
            save(tmp_path / "Plugin" / f"Q{number}" / "plugin-manifest.json", "{half")
        done = await services.reload()
        assert len(done.problems) == 100
        assert len(lines(caplog)) == 102
        assert len(lines(caplog)[-1]) < 1000
        assert "and 400 more problems" in caplog.text

    run(main())


def test_what_cannot_be_opened_for_want_of_descriptors_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(error: int) -> Callable[..., object]:
        def opening(*_: object, **__: object) -> object:
            raise OSError(error, os.strerror(error))

        return opening

    async def main() -> None:
        add_plugin(tmp_path, "Echo")
        save(tmp_path / "Plugin" / "SciCalculator" / "plugin-manifest.json.block", manifest_of("SciCalculator"))
        services, _ = installed(tmp_path)
        config, plugins = services.config, services.found_plugins.plugins
        assert services.found_plugins.blocked == ("SciCalculator",)
        for owners, name in (((Path, os), "open"), ((Path,), "iterdir")):
            with monkeypatch.context() as patched:
                for owner in owners:
                    patched.setattr(owner, name, refuse(errno.EMFILE))
                done = await services.reload()
            assert len(done.problems) >= 2
        assert services.config is config
        assert services.found_plugins.plugins == plugins

    run(main())
