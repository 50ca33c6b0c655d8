"""``vcp node``: where its key comes from, what it tells. What it does is tested in ``tests/node``."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.node import announcement, as_node, current_key, node_key
from app.config.snapshot import Config, load
from app.errors import ConfigError
from app.node.main_server import main_server
from app.node.node import NodeIdentity

MAIN = main_server("ws://host/vcp-distributed-server/VCP_Key=of-the-address")


def config(home: Path, *lines: str) -> Config:
    (home / "config.env").write_text("\n".join(lines) + "\n")
    return as_node(load(home, {}))


def test_the_key_is_that_of_the_file_the_environment_the_settings_or_the_address(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("\ufeffof-the-file\r\n", encoding="utf-8")
    configured = config(tmp_path, "VCP_Key=of-the-settings")
    assert node_key(file, "of-the-environment", configured, MAIN) == "of-the-file"
    assert node_key(None, "of-the-environment", configured, MAIN) == "of-the-environment"
    assert node_key(None, "", configured, MAIN) == "of-the-settings"
    assert node_key(None, "", config(tmp_path), MAIN) == "of-the-address"
    with pytest.raises(ConfigError, match="VCP_KEY"):
        node_key(None, "", config(tmp_path), main_server("ws://host"))


@pytest.mark.parametrize("content", [b"", b"  \n", b"\xff", b"two words", b"two\nlines", b"k" * 10 + b"\0"])
def test_a_file_without_a_usable_key_is_refused_without_repeating_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        node_key(file, "", config(tmp_path), MAIN)
    assert "two" not in refused.value.message


def test_a_key_that_changes_counts_at_the_next_connection_and_one_that_is_gone_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key"
    file.write_text("first")
    current = current_key("first", lambda: node_key(file, "", config(tmp_path), MAIN))
    file.write_text("second")
    assert current() == "second"
    file.unlink()
    assert current() == "second"
    assert "second" not in caplog.text


def test_a_node_listens_on_loopback_whatever_its_settings_say(tmp_path: Path) -> None:
    settings = config(tmp_path, "HOST=0.0.0.0", "Key=please-change-me", "CALLBACK_BASE_URL=http://h/x").settings
    assert (settings.host, settings.callback_base_url) == ("127.0.0.1", "")


@pytest.mark.parametrize(("tools", "hint"), [(0, True), (1, False)])
def test_a_node_without_tools_says_where_plugins_belong_and_never_its_key(
    tmp_path: Path, tools: int, hint: bool
) -> None:
    told = announcement(NodeIdentity("workshop", MAIN, key=lambda: "secret"), tools, tmp_path / "Plugin")
    assert (str(tmp_path / "Plugin") in told) is hint
    assert "secret" not in told
    assert "of-the-address" not in told
