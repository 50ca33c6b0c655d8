"""``vcp keys``: what there is, masked; and new values."""

from __future__ import annotations

import asyncio
import re
import stat
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from app.config.dotenv import parse
from app.config.keys import KEY_FILE
from app.home.lock import own_home
from app.hub.clients import ClientType
from app.hub.hub import PATHS
from app.hub.nodes.key_file import NODE_KEYS_FILE, read_node_keys
from app.tools.auth_code import AuthCode, write_auth_code
from tests.cli.commands import Ended, command, refused
from tests.hub.clients import address, connected
from tests.program import started
from tests.server import run

NAMES = ("Key", "Image_Key", "File_Key", "VCP_Key", "ToolSocketToken", "AdminPassword", "API_Key")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def configured(home: Path) -> dict[str, str]:
    values = {name: f"{name}-secret-value-{number:04}" for number, name in enumerate(NAMES)}
    (home / "config.env").write_text("".join(f"{name}={value}\n" for name, value in values.items()), encoding="utf-8")
    return values


def test_keys_are_masked_unless_they_are_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    values = configured(tmp_path)
    masked = command(capsys, "keys", "--home", tmp_path)
    assert masked.code == 0
    assert not [name for name, value in values.items() if value in masked.out]
    assert [line.split()[0] for line in masked.out.splitlines()[::2]] == list(NAMES)
    shown = command(capsys, "keys", "--home", tmp_path, "--show")
    assert [value for value in values.values() if value in shown.out] == list(values.values())


def test_the_keys_of_named_upstreams_are_keys_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    value = "upstream-secret-value-0001"
    (tmp_path / "config.env").write_text(f"Upstream_home_URL=http://a\nUpstream_home_Key={value}\n", encoding="utf-8")
    masked = command(capsys, "keys", "--home", tmp_path).out
    assert "Upstream_home_Key" in masked and "our key at this upstream; config.env" in masked
    assert value not in masked
    assert value in command(capsys, "keys", "--home", tmp_path, "--show").out


def test_a_short_secret_shows_nothing_but_its_length(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("AdminPassword=abc12345\n", encoding="utf-8")
    out = command(capsys, "keys", "--home", tmp_path).out
    assert "abc" not in out
    assert "8 characters" in out


def test_each_key_says_where_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(tmp_path)
    monkeypatch.setenv("API_Key", "from-the-environment-x")
    folder = tmp_path / "Plugin" / "VCPLog"
    folder.mkdir(parents=True)
    (folder / "plugin-manifest.json").write_text(
        '{"name": "VCPLog", "pluginType": "service", "entryPoint": {"type": "nodejs", "script": "VCPLog.js"}}'
    )
    (folder / "config.env").write_text("VCP_Key=own-key-of-the-plugin\n")
    out = command(capsys, "keys", "--home", tmp_path, "--show").out.splitlines()
    told = {value.split()[0]: (value, source) for value, source in zip(out[::2], out[1::2], strict=True)}
    assert "from-the-environment-x" in told["API_Key"][0]
    assert "environment" in told["API_Key"][1]
    assert "own-key-of-the-plugin" in told["VCP_Key"][0]
    assert "Plugin/VCPLog/config.env" in told["VCP_Key"][1]
    assert told["Key"][1].endswith("; config.env")


def test_looking_at_keys_makes_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = command(capsys, "keys", "--home", tmp_path).out
    assert out.count("not set") == len(NAMES)
    assert list(tmp_path.iterdir()) == []


def test_a_new_key_takes_the_place_of_the_generated_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command(capsys, "init", tmp_path)
    old = (tmp_path / KEY_FILE).read_text()
    ended = command(capsys, "keys", "--home", tmp_path, "new")
    new = (tmp_path / KEY_FILE).read_text()
    assert (ended.code, ended.err, new != old) == (0, "", True)
    assert new.strip() not in ended.out
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert new.strip() in command(capsys, "keys", "--home", tmp_path, "--show").out
    assert list((tmp_path / ".vcp").iterdir()) == [tmp_path / KEY_FILE]


def test_a_configured_key_is_not_replaced(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    configured(tmp_path)
    told = refused(capsys, "keys", "new", "--home", tmp_path)
    assert "change Key there" in told
    assert "config.env" in told
    assert not (tmp_path / KEY_FILE).exists()


def test_a_server_that_runs_is_said_to_keep_the_old_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with own_home(tmp_path, "serve") as ownership:
        ownership.tell("http://127.0.0.1:4711")
        assert "http://127.0.0.1:4711" in command(capsys, "keys", "--home", tmp_path, "new").err


def test_strong_values_come_as_lines_for_config_env(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ended = command(capsys, "keys", "--home", tmp_path, "new", "Image_Key", "File_Key", "AdminPassword", "Image_Key")
    entries = parse(ended.out)
    assert [entry.key for entry in entries] == ["Image_Key", "File_Key", "AdminPassword"]
    assert len({entry.value for entry in entries}) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", entry.value) for entry in entries)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_secret_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "PORT" in refused(capsys, "keys", "--home", tmp_path, "new", "PORT")


def test_a_disk_that_is_full_keeps_the_old_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(capsys, "init", tmp_path)
    old = (tmp_path / KEY_FILE).read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "No space left" in refused(capsys, "keys", "--home", tmp_path, "new")
    assert (tmp_path / KEY_FILE).read_text() == old
    assert list((tmp_path / ".vcp").iterdir()) == [tmp_path / KEY_FILE]


def test_the_code_of_the_hour_is_shown_to_whoever_may_read_its_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = command(capsys, "keys", "--home", tmp_path, "code")
    assert (missing.code, missing.out) == (1, "")
    assert "code.bin" in missing.err
    write_auth_code(tmp_path)
    shown = command(capsys, "keys", "--home", tmp_path, "code")
    assert (shown.code, shown.out.strip(), shown.err) == (0, AuthCode(tmp_path)(), "")
    assert re.fullmatch(r"[1-9]\d{5}", shown.out.strip())


def of_node(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> Ended:
    return command(capsys, "keys", "--home", home, "node", *words)


def test_a_node_gets_a_key_that_is_printed_once_with_the_command_for_its_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config.env").write_text("PORT=7001\nHOST=0.0.0.0\nKey=0123456789abcdef\n", encoding="utf-8")
    made = of_node(capsys, tmp_path, "工作站", "--tools", "Echo，Dice, Echo")
    key = made.out.strip()
    assert (made.code, len(key), made.out.count("\n")) == (0, 43, 1), "only the key is on stdout, for --key-file"
    assert "VCP_KEY=KEY vcp node --url ws://ADDRESS:7001 --name 工作站" in made.err
    assert "HOST=" not in made.err
    for words in ((), ("--show",)):
        listed = command(capsys, "keys", "--home", tmp_path, *words).out
        assert key not in listed
        assert f"sha256:{read_node_keys(tmp_path).keys['工作站'].fingerprint}" in listed
        assert "工具 / tools: Echo, Dice" in listed
    assert key not in "".join(path.read_text() for path in (tmp_path / ".vcp").iterdir())


def test_the_list_of_a_nodes_tools_changes_and_its_key_stays(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    of_node(capsys, tmp_path, "a")
    digest = read_node_keys(tmp_path).keys["a"].digest
    for words, told, tools in (
        (("--tools", "X,Y"), "X, Y", ("X", "Y")),
        (("--tools", ""), "none", ()),
        (("--all-tools",), "any", None),
    ):
        changed = of_node(capsys, tmp_path, "a", *words)
        assert (changed.code, changed.err) == (0, "")
        assert changed.out.endswith(f"{told}\n")
        entry = read_node_keys(tmp_path).keys["a"]
        assert (entry.digest, entry.tools) == (digest, tools)


def test_a_nodes_key_is_taken_back_and_listed_as_such(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    of_node(capsys, tmp_path, "a")
    assert of_node(capsys, tmp_path, "a", "--revoke").code == 0
    assert "revoked" in command(capsys, "keys", "--home", tmp_path).out
    again = of_node(capsys, tmp_path, "a")
    assert "counts no longer" in again.err
    assert "revoked" not in command(capsys, "keys", "--home", tmp_path).out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a#b",), "no name for a node"),
        (("nobody", "--revoke"), "has a key that counts"),
        (("a", "--tools", "x#y"), "no name of a tool"),
        (("a", "--tools", "X", "--revoke"), "not allowed with"),
        ((), "NAME"),
    ],
)
def test_what_cannot_be_done_for_a_node_is_refused_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    assert told in refused(capsys, "keys", "--home", tmp_path, "node", *words)
    assert not (tmp_path / NODE_KEYS_FILE).exists()


def test_no_key_is_made_that_could_not_be_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    of_node(capsys, tmp_path, "a")
    before = (tmp_path / NODE_KEYS_FILE).read_bytes()
    (tmp_path / "config.env").mkdir()
    assert "config.env" in refused(capsys, "keys", "--home", tmp_path, "node", "a")
    assert (tmp_path / NODE_KEYS_FILE).read_bytes() == before


def test_a_faulty_entry_is_told_and_a_broken_file_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    of_node(capsys, tmp_path, "a")
    path = tmp_path / NODE_KEYS_FILE
    path.write_text(path.read_text().replace('"revoked": false', '"revoked": 0'))
    told = command(capsys, "keys", "--home", tmp_path)
    assert told.code == 0
    assert "'a' does not say whether it is revoked" in told.err
    path.write_text("{")
    assert "cannot be used" in refused(capsys, "keys", "--home", tmp_path, "node", "b")


def test_a_key_that_is_made_beside_a_running_server_counts_at_once_and_so_does_its_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As a person does it: a server of its own process, commands beside it."""

    async def test() -> None:
        (tmp_path / "config.env").write_text("Key=0123456789abcdef\nShutdownSeconds=0.1\n", encoding="utf-8")
        with started("serve", "--port", "0", cwd=tmp_path) as server:
            key = of_node(capsys, tmp_path, "workshop").out.strip()
            url = address(server.base_url.removesuffix("/v1"), PATHS[ClientType.NODE], key)
            async with connected(url) as node:
                await node.send({"type": "report_ip", "data": {}})  # it waits for no acknowledgement
                await node.nothing_waits()
                assert of_node(capsys, tmp_path, "workshop", "--revoke").code == 0
                assert (await node.goodbye())[0] == 1008
            with pytest.raises(InvalidStatus):
                async with connected(url):
                    pass
            assert await asyncio.to_thread(server.stop) == 0
            assert key not in server.logged

    run(test())
