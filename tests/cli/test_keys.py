"""``vcp keys``: what there is, masked; and new values."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from app.config.dotenv import parse
from app.config.keys import KEY_FILE
from app.home.lock import own_home
from app.tools.auth_code import AuthCode, write_auth_code
from tests.cli.commands import command, refused

NAMES = ("Key", "Image_Key", "File_Key", "VCP_Key", "AdminPassword", "API_Key")


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
