"""``vcp init``: an installation that can be started at once, and nothing that was there is touched."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from app.config.home_folders import HOME_FOLDERS
from app.config.keys import KEY_FILE
from app.config.program_files import EXAMPLE, FIRST_AGENT, FIRST_TEXT, program_file
from app.config.snapshot import load
from app.errors import ConfigError
from app.home.new_home import make_new_home


def test_a_new_home_has_everything_and_its_secrets_are_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "new" / "我的 home"
    new = make_new_home(home, {})
    assert (new.kept, new.generated_key) == ((), True)
    assert {path.name for path in home.iterdir()} == {"config.env", "agent_map.json", ".vcp", *HOME_FOLDERS}
    assert (home / "config.env").read_bytes() == program_file(EXAMPLE).read_bytes()
    for name in ("config.env", KEY_FILE):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    config = load(home, {})
    assert config.problems == ()
    aliases = json.loads((home / "agent_map.json").read_text(encoding="utf-8"))
    assert (home / "Agent" / aliases["Nova"]).read_bytes() == program_file(FIRST_AGENT).read_bytes()


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    first = make_new_home(tmp_path, {})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    second = make_new_home(tmp_path, {})
    assert (second.made, second.generated_key) == ((), True)
    assert set(second.kept) == set(first.made) - {FIRST_AGENT, FIRST_TEXT}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_an_old_installation_keeps_its_files_and_gets_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("Key=old-key-of-mine\n", encoding="utf-8")
    (tmp_path / "Agent").mkdir()
    (tmp_path / "agent_map.json").write_text('{"小克": "小克.txt"}', encoding="utf-8")
    new = make_new_home(tmp_path, {})
    assert new.generated_key is False
    assert set(new.kept) == {"config.env", "agent_map.json", "Agent/"}
    assert list((tmp_path / "Agent").iterdir()) == []
    assert (tmp_path / "config.env").read_text(encoding="utf-8") == "Key=old-key-of-mine\n"
    assert not (tmp_path / KEY_FILE).exists()


def test_a_key_in_the_environment_is_a_key(tmp_path: Path) -> None:
    assert make_new_home(tmp_path, {"Key": "from-outside"}).generated_key is False


def test_a_link_that_leads_nowhere_is_kept_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "agent_map.json").symlink_to(tmp_path / "gone")
    assert "agent_map.json" in make_new_home(tmp_path, {}).kept
    assert not (tmp_path / "gone").exists()


def test_a_place_where_nothing_can_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="file"):
            make_new_home(place, {})


def test_a_disk_that_is_full_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match=r"config\.env.*No space left"):
        make_new_home(tmp_path, {})
    assert {path.name for path in tmp_path.iterdir()} == set(HOME_FOLDERS)
