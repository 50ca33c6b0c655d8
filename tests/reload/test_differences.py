"""What the log says of a change: names, never values."""

from __future__ import annotations

from pathlib import Path

from app.config.dotenv import parse_values
from app.config.snapshot import Config, load
from app.plugins.discovery import PluginSet, discover
from app.reload.differences import MAX_NAMES, config_changes, listed, plugin_changes
from tests.reload.files import add_plugin, save


def config(home: Path, *lines: str, **environ: str) -> Config:
    save(home / "config.env", *lines)
    return load(home, environ)


def plugins(home: Path) -> PluginSet:
    return discover([home / "Plugin"], parse_values)


def test_keys_that_are_new_gone_or_different_are_named_without_their_values(tmp_path: Path) -> None:
    before = config(tmp_path, "A=1", "Key=old-secret", "VarX=x")
    now = config(tmp_path, "A=1", "Key=new-secret", "VarY=y")
    assert config_changes(before, now) == ("Key", "VarX", "VarY")
    assert config_changes(before, before) == ()


def test_a_key_that_the_process_environment_sets_has_not_changed(tmp_path: Path) -> None:
    before = config(tmp_path, "ShowVCP=false", ShowVCP="true")
    assert config_changes(before, config(tmp_path, "ShowVCP=false  # other", ShowVCP="true")) == ()


def test_another_order_of_variables_is_a_change(tmp_path: Path) -> None:
    before, now = config(tmp_path, "VarA=1", "VarB=2"), config(tmp_path, "VarB=2", "VarA=1")
    assert now != before
    assert config_changes(before, now) == ("order of the keys",)


def test_plugins_are_named_by_what_became_of_them(tmp_path: Path) -> None:
    for name in ("Same", "Gone", "Edited", "Own"):
        add_plugin(tmp_path, name)
    before = plugins(tmp_path)
    assert plugins(tmp_path) == before
    (tmp_path / "Plugin" / "Gone" / "plugin-manifest.json").unlink()
    add_plugin(tmp_path, "Edited", description="new")
    save(tmp_path / "Plugin" / "Own" / "config.env", "A=1")
    add_plugin(tmp_path, "小新")
    assert plugin_changes(before, plugins(tmp_path)) == ("added 小新", "changed Edited, Own", "removed Gone")


def test_a_long_list_and_a_long_name_are_cut() -> None:
    said = listed([f"K{number}" for number in range(MAX_NAMES + 5)])
    assert said.endswith(f"K{MAX_NAMES - 1} and 5 more")
    assert len(listed(["x" * 10_000])) < 200
