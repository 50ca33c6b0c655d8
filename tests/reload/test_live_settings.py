"""Every setting is live or needs a restart and says so: nothing that is read at the start is forgotten at a reload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli import main as _cli  # noqa: F401 - with it every part of the program is loaded
from app.config.settings import NEEDS_RESTART, Settings, names
from app.config.snapshot import load
from app.services import Services, make_home
from app.web.app import create_app

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


@pytest.fixture
def first_and_second(tmp_path: Path) -> tuple[set[str], set[str]]:
    """The settings that are read while a server is made, and those that are read again when they are replaced."""
    make_home(tmp_path)
    (tmp_path / "config.env").write_text("API_URL=http://127.0.0.1:9\n", encoding="utf-8")
    config = load(tmp_path, {})
    first = replace(config, settings=watched(config.settings))
    services = Services(first, "key", read_config=lambda: config)
    create_app(services)
    second = replace(config, settings=watched(config.settings))
    services.apply(second)
    return read(first.settings), read(second.settings)


def test_what_is_read_at_the_start_is_read_again_at_a_reload_or_needs_a_restart(
    first_and_second: tuple[set[str], set[str]],
) -> None:
    """A setting that is not read at the start is asked for at each use, from the configuration of now.

    If this fails with the name of a new setting, a part keeps its value: hand it a callable in place of the value,
    derive it anew in ``Services.apply``, or list it in ``NEEDS_RESTART`` and mark it in docs/configuration.md.
    """
    first, second = first_and_second
    assert first - second - NEEDS_RESTART == set()


def test_the_test_above_would_notice(first_and_second: tuple[set[str], set[str]]) -> None:
    first, second = first_and_second
    assert {"API_URL", "ApiRetries", "PluginMaxRunning", "DEFAULT_TIMEZONE"} <= first & second
    assert "LiveReload" in first - second
    assert "ShowVCP" not in first
    assert first <= set(names())
