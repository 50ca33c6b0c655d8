"""Which plugins a server has: all, or those that a command names."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from app.config.snapshot import load
from app.services import plugin_hosts
from app.services.in_force import InForce
from tests.plugins.modules import alone, serving, write_module
from tests.server import ECHO, write_plugin

__all__ = ["alone"]


def test_a_server_of_a_few_plugins_has_no_others_and_looks_for_them_where_it_was_told(tmp_path: Path) -> None:
    for folder, name in (("home", "A"), ("more", "A"), ("more", "B"), ("more", "C")):
        write_plugin(tmp_path / folder, name, ECHO)
    (tmp_path / "more" / "Plugin" / "C" / "plugin-manifest.json").write_text("{oops")
    config = replace(
        load(tmp_path / "home", {}),
        only_plugins=frozenset({"A", "SciCalculator"}),
        plugin_folder=tmp_path / "more" / "Plugin",
    )
    found = plugin_hosts.search_plugins(InForce(config, "key"))
    assert [plugin.name for plugin in found.plugins] == ["A", "SciCalculator"]
    assert found.plugins[0].folder == tmp_path / "more" / "Plugin" / "A"
    assert found.problems == ()  # those of others are nobody's business here


def test_what_waits_for_its_first_call_can_be_loaded_before(alone: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_module(alone, "Broken", "raise RuntimeError('not today')")

    async def test() -> None:
        async with serving(alone) as services:
            services.in_process._on_demand = True
            await services.in_process.load_all()
            assert ["not today" in problem for problem in services.in_process.problems()] == [True]

    asyncio.run(test())
