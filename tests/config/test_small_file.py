"""Files that are read without waiting: a pipe under the name of a file must not stop the server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.config import dotenv
from app.config.live_file import LiveFile
from app.config.small_file import read_small
from app.errors import ConfigError, ManifestError
from app.plugins.manifest import read_manifest
from app.tools.auth_code import CODE_FILE, AuthCode

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_pipe_is_refused_and_not_waited_for(pipe: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        read_small(pipe, 10)


def test_an_endless_device_is_refused() -> None:
    with pytest.raises(OSError, match="not a regular file"):
        read_small(Path("/dev/zero"), 10)


def test_the_null_device_is_an_empty_file() -> None:
    assert read_small(Path(os.devnull), 10) == b""


def test_a_folder_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_small(tmp_path, 10)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_small(path, 4) == b"0123"


def test_a_pipe_in_the_place_of_a_live_file_is_an_error_and_does_not_stop_the_event_loop(pipe: Path) -> None:
    content = LiveFile(pipe, 100, lambda: 0.0).changed()
    assert content is not None
    assert "not a regular file" in content.error


def test_a_pipe_in_the_place_of_config_env_is_told(pipe: Path) -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        dotenv.read(pipe)


def test_a_pipe_in_the_place_of_a_manifest_is_told(pipe: Path) -> None:
    with pytest.raises(ManifestError, match="not a regular file"):
        read_manifest(pipe)


def test_a_pipe_in_the_place_of_the_auth_code_is_no_code(tmp_path: Path) -> None:
    (tmp_path / CODE_FILE).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / CODE_FILE)
    assert AuthCode(tmp_path)() is None
