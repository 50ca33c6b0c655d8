"""Which secrets clients are never told: our own, those of plugins by their names, and those of now (B5, D30)."""

from __future__ import annotations

from pathlib import Path

from app.config.dotenv import parse_values
from app.config.snapshot import load
from app.plugins.discovery import PluginSet, discover
from app.services.client_secrets import ClientSecrets
from tests.server import ECHO, write_plugin

LINES = """
Key=server-key
API_Key=model-key
VCP_Key=socket-key
Image_Key=picture-key
File_Key=files-key
AdminPassword=panel
ToolSocketToken=tool-token
Upstream_A_URL=http://127.0.0.1:9
Upstream_A_Key=other-model
SearchKey=abcdefghijkl
MailPassword='with some blanks in it'
ShortToken=abc
VarMonkeys=bananas-and-more
VCPToolCode=%s
"""


def test_all_are_known_and_texts_that_are_none_are_left(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text(LINES % "true", encoding="utf-8")
    config = load(tmp_path, {"PATH": "/bin", "OtherToken": "of-the-system-itself"})
    secrets = ClientSecrets(lambda: config, lambda: "generated", PluginSet, lambda: "313213")
    own = {"generated", "server-key", "model-key", "socket-key", "panel", "tool-token", "other-model"}
    more = {"abcdefghijkl", "313213"}
    assert set(secrets.without_addresses()) == own | more
    assert set(secrets()) == own | more | {"picture-key", "files-key"}


def test_those_of_a_reload_count_at_once_and_the_code_only_while_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "config.env"
    path.write_text(LINES % "true", encoding="utf-8")
    config = load(tmp_path, {})
    secrets = ClientSecrets(lambda: config, lambda: "generated", PluginSet, lambda: "313213")
    assert "313213" in secrets()
    path.write_text((LINES % "false").replace("model-key", "new-key"), encoding="utf-8")
    config = load(tmp_path, {})
    assert "313213" not in secrets()
    assert "new-key" in secrets()
    assert "model-key" not in secrets()


def test_those_in_the_settings_of_plugins_count_too(tmp_path: Path) -> None:
    config = load(tmp_path, {})
    write_plugin(tmp_path, "Weather", ECHO)
    own = tmp_path / "Plugin" / "Weather" / "config.env"
    own.write_text("WEATHER_API_KEY=abcdefghijklmn\nUNIT_TOKEN=C\nCITY=Hangzhou-the-city\n", encoding="utf-8")
    plugins = [discover([tmp_path / "Plugin"], parse_values)]
    secrets = ClientSecrets(lambda: config, lambda: "generated", lambda: plugins[0], lambda: None)
    assert "abcdefghijklmn" in secrets() and "abcdefghijklmn" in secrets.without_addresses()
    assert not {"C", "Hangzhou-the-city"} & set(secrets())
    plugins[0] = PluginSet()
    assert "abcdefghijklmn" not in secrets()
