"""Keys: generated ones, placeholders, and what may be offered where (B6, D42)."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from app.config.dotenv import quote
from app.config.keys import (
    ADMIN_FILE,
    KEY_FILE,
    ServerKey,
    admin_password,
    check_bind,
    replace_key,
    server_key,
    stored_key,
    strong_value,
    with_administrator,
)
from app.config.snapshot import load
from app.errors import ConfigError

posix = pytest.mark.skipif(os.name == "nt", reason="file modes are those of POSIX")


def test_a_configured_key_is_used_and_nothing_is_written(tmp_path: Path) -> None:
    assert server_key(load(tmp_path, {"Key": "mine"})) == ServerKey("mine", generated=False, path=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("blank", [{}, {"Key": ""}, {"Key": "  "}])
def test_a_missing_key_is_generated_once_and_kept(tmp_path: Path, blank: dict[str, str]) -> None:
    config = load(tmp_path, blank)
    first = server_key(config)
    assert first.generated
    assert first.path == tmp_path / KEY_FILE
    assert len(first.value) >= 43
    assert server_key(config) == first
    assert [path.name for path in (tmp_path / ".vcp").iterdir()] == ["server.key"]


def test_two_homes_get_two_keys(tmp_path: Path) -> None:
    keys = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        keys.add(server_key(load(tmp_path / name, {})).value)
    assert len(keys) == 2


@posix
def test_a_generated_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = server_key(load(tmp_path, {})).path
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    server_key(load(tmp_path, {}))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damaged", [b"", b"\n \n", b"\xff\xfe\x00", b"two words"])
def test_a_damaged_key_file_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / KEY_FILE
    path.parent.mkdir()
    path.write_bytes(damaged)
    key = server_key(load(tmp_path, {}))
    assert len(key.value) >= 43
    assert path.read_text(encoding="ascii").strip() == key.value


def test_a_key_that_the_operator_wrote_into_the_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / KEY_FILE
    path.parent.mkdir()
    path.write_bytes(b"my-own-key\r\n")
    assert server_key(load(tmp_path, {})).value == "my-own-key"


def test_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    config = load(tmp_path, {})
    keys: list[str] = []
    threads = [threading.Thread(target=lambda: keys.append(server_key(config).value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1


def test_a_home_that_cannot_keep_a_key_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".vcp").write_bytes(b"in the way")
    with pytest.raises(ConfigError, match=r"set Key in config\.env"):
        server_key(load(tmp_path, {}))


def test_a_key_is_in_no_representation(tmp_path: Path) -> None:
    key = server_key(load(tmp_path, {}))
    assert key.value not in repr(key)


@pytest.mark.parametrize("name", ["Key", "Image_Key", "File_Key", "VCP_Key", "ToolSocketToken"])
@pytest.mark.parametrize("value", ["please-change-me", "please-change-me-too", "Please-Change-Me"])
def test_a_placeholder_is_refused_where_other_machines_get_in(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_bind(load(tmp_path, {"HOST": "0.0.0.0", name: value}))
    assert caught.value.message.startswith(f"{name} is still the placeholder")
    assert "占位值" in caught.value.message
    check_bind(load(tmp_path, {"HOST": "127.0.0.1", name: value}))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("name", ["Key", "Image_Key", "File_Key", "VCP_Key", "ToolSocketToken"])
def test_the_key_of_clients_without_a_key_is_refused_everywhere(tmp_path: Path, name: str, host: str) -> None:
    with pytest.raises(ConfigError, match='is "undefined"'):
        check_bind(load(tmp_path, {"HOST": host, name: "undefined"}))


@pytest.mark.parametrize(
    "environ", [{}, {"Key": "k"}, {"HOST": "0.0.0.0"}, {"HOST": "0.0.0.0", "Key": "k", "Image_Key": "i"}]
)
def test_real_keys_and_generated_ones_may_be_offered_anywhere(tmp_path: Path, environ: dict[str, str]) -> None:
    check_bind(load(tmp_path, environ))


@posix
def test_a_generated_key_is_read_without_changing_its_file(tmp_path: Path) -> None:
    assert stored_key(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
    key = server_key(load(tmp_path, {}))
    (tmp_path / KEY_FILE).chmod(0o644)
    assert stored_key(tmp_path) == key.value
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o644


@posix
def test_a_generated_key_is_replaced_by_a_strong_one_for_its_owner_alone(tmp_path: Path) -> None:
    old = server_key(load(tmp_path, {}))
    new = replace_key(load(tmp_path, {}))
    assert (new.generated, new.path, new.value != old.value, len(new.value)) == (True, tmp_path / KEY_FILE, True, 43)
    assert server_key(load(tmp_path, {})).value == new.value
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(("environ", "where"), [({}, "config.env"), ({"Key": "k"}, "environment")])
def test_a_configured_key_is_not_replaced(tmp_path: Path, environ: dict[str, str], where: str) -> None:
    if not environ:
        (tmp_path / "config.env").write_text("Key=k\n")
    with pytest.raises(ConfigError, match=where):
        replace_key(load(tmp_path, environ))
    assert not (tmp_path / KEY_FILE).exists()


def test_strong_values_need_no_quotes_and_never_repeat() -> None:
    values = {strong_value() for _ in range(50)}
    assert len(values) == 50
    assert all(quote(value) == value for value in values)


def test_d86_a_missing_admin_password_is_generated_on_loopback_only(tmp_path: Path) -> None:
    for given in ({"HOST": "0.0.0.0"}, {"AdminPassword": "mine"}):
        assert admin_password(load(tmp_path, given)) == ""
        assert list(tmp_path.iterdir()) == []
    password = admin_password(load(tmp_path, {"AdminPassword": " "}))
    assert len(password) >= 43
    assert admin_password(load(tmp_path, {})) == password
    assert (tmp_path / ADMIN_FILE).read_text().strip() == password
    assert (tmp_path / ADMIN_FILE).stat().st_mode & 0o777 == 0o600


def test_the_generated_password_gives_way_to_a_configured_one_and_plugins_never_see_it(tmp_path: Path) -> None:
    config = with_administrator(load(tmp_path, {}), "s3cr3t-word")
    assert (config.settings.admin_username, config.settings.admin_password) == ("admin", "s3cr3t-word")
    assert "s3cr3t-word" not in str(dict(config.environ)) + repr(config)
    named = with_administrator(load(tmp_path, {"AdminUsername": "chef"}), "s3cr3t-word")
    assert named.settings.admin_username == "chef"
    own = load(tmp_path, {"AdminPassword": "own"})
    assert with_administrator(own, "s3cr3t-word") is own
    assert with_administrator(own, "") is own


def test_a_home_that_cannot_keep_a_password_leaves_the_panel_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".vcp").write_text("in the way")
    assert admin_password(load(tmp_path, {})) == ""
    assert "AdminPassword" in caplog.text
