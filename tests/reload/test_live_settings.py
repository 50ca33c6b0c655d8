"""Every setting is live or needs a restart and says so: nothing that is read at the start is forgotten at a reload."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.cli import main as _cli  # noqa: F401 - with it every part of the program is loaded
from app.config.home_folders import make_home
from app.config.settings import NEEDS_RESTART, Settings, names
from app.config.snapshot import load
from app.services import Services
from app.web.app import create_app
from tests.reload.files import save
from tests.web.asgi import ask

FIELDS = {name: str(info.alias) for name, info in Settings.model_fields.items()}


class Watched(Settings):
    """Settings that note which of them are read."""

    def __getattribute__(self, name: str) -> Any:
        if name in FIELDS:
            object.__getattribute__(self, "__dict__").setdefault("read", set()).add(FIELDS[name])
        return super().__getattribute__(name)


def watched(settings: Settings) -> Watched:
    made = Watched.model_construct(**{name: getattr(settings, name) for name in FIELDS})
    made.__dict__["read"] = set()
    return made


def read(settings: Settings) -> set[str]:
    return set(settings.__dict__["read"])


def reads(home: Path, keep: Callable[[Services], object] = id) -> tuple[set[str], set[str]]:
    """The settings that are read while a server is made, and those that are read of the new ones after a reload.

    ``keep`` is a part that takes what it wants at the start.
    """
    make_home(home)
    save(home / "config.env", "API_URL=http://127.0.0.1:9")
    config = load(home, {})
    first = replace(config, settings=watched(config.settings))
    save(home / "config.env", "API_URL=http://127.0.0.1:9", "VarX=1")
    config = load(home, {})
    second = replace(config, settings=watched(config.settings))

    async def main() -> tuple[set[str], set[str]]:
        services = Services(first, "key", read_config=lambda: second)
        keep(services)
        app = create_app(services)
        at_the_start = read(first.settings)
        assert (await services.reload()).parts == ("config.env: VarX",)
        assert services.config is second
        await ask(app, "GET", "/v1/none", client="192.0.2.1")
        return at_the_start, read(second.settings)

    return asyncio.run(main())


def test_what_is_read_at_the_start_is_read_again_at_a_reload_or_needs_a_restart(tmp_path: Path) -> None:
    """A setting that is not read at the start is asked for at each use, from the configuration of now.

    If this fails with the name of a new setting, a part keeps its value: hand it a callable in place of the value,
    derive it anew in ``Services.apply``, or list it in ``NEEDS_RESTART`` and mark it in docs/configuration.md.
    """
    first, second = reads(tmp_path)
    assert first - second - NEEDS_RESTART == set()
    assert {"API_URL", "ApiRetries", "PluginMaxRunning", "DEFAULT_TIMEZONE", "LiveReload"} <= first
    assert "ShowVCP" not in first
    assert first <= set(names())


def test_a_part_that_keeps_a_setting_would_be_noticed(tmp_path: Path) -> None:
    first, second = reads(tmp_path, lambda services: services.settings.tag_model)
    assert first - second - NEEDS_RESTART == {"TagModel"}
