"""What a killed process left half written goes at the next start, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.config import leftovers
from app.config.leftovers import FOLDERS, OLD_SECONDS, sweep_leftovers
from app.services.plugin_hosts import FILE_CACHE
from tests.program import ROOT

NOW = 2_000_000_000.0
LEFT = ".x.json.0123456789abcdef.tmp"


def left_over(path: Path, age: float = OLD_SECONDS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    os.utime(path, (NOW - age, NOW - age))
    return path


def test_old_ones_go_from_every_folder_in_which_the_server_writes(tmp_path: Path) -> None:
    paths = [left_over(tmp_path / folder / LEFT) for folder in FOLDERS]
    paths.append(left_over(tmp_path / "dailynote" / "Nova" / f".{'0f' * 16}.tmp"))
    assert sweep_leftovers(tmp_path, NOW) == len(paths)
    assert not any(path.exists() for path in paths)
    assert sweep_leftovers(tmp_path / "missing", NOW) == 0


def test_notebooks_that_lie_elsewhere_are_swept_too(tmp_path: Path) -> None:
    left = left_over(tmp_path / "drive" / "Nova" / LEFT)
    assert sweep_leftovers(tmp_path / "home", NOW, tmp_path / "drive") == 1
    assert not left.exists()


def test_copies_of_files_of_clients_are_among_them() -> None:
    assert FILE_CACHE in FOLDERS


def test_what_may_be_written_right_now_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    outside = left_over(tmp_path / "elsewhere" / LEFT)
    kept = [
        left_over(tmp_path / "VCPTimedContacts" / LEFT, OLD_SECONDS - 1),
        left_over(tmp_path / "VCPTimedContacts" / ".mine.tmp"),
        left_over(tmp_path / "VCPTimedContacts" / "x.json.0123456789abcdef.tmp"),
        left_over(tmp_path / "dailynote" / "Nova" / "2026.txt"),
        left_over(tmp_path / "Plugin" / "Mine" / LEFT),
        outside,
    ]
    (tmp_path / "dailynote" / "Link").symlink_to(outside.parent)
    (tmp_path / "VCPTimedContacts" / ".l.fedcba9876543210.tmp").symlink_to(outside)
    (tmp_path / "VCPTimedContacts" / ".d.fedcba9876543210.tmp2").mkdir()
    assert sweep_leftovers(tmp_path, NOW) == 0
    assert all(path.exists() for path in kept)


def test_one_that_cannot_be_removed_is_named_and_the_others_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn, other = left_over(tmp_path / ".vcp" / LEFT), left_over(tmp_path / "VCPTimedResults" / LEFT)
    real = Path.unlink

    def unlink(path: Path) -> None:
        if path == stubborn:
            raise PermissionError(1, "not permitted")
        real(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    assert sweep_leftovers(tmp_path, NOW) == 1
    assert str(stubborn) in caplog.text
    assert not other.exists()


def test_a_sweep_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        left_over(tmp_path / f".{number}.0123456789abcdef.tmp")
    monkeypatch.setattr(leftovers, "MAX_ENTRIES", 3)
    assert sweep_leftovers(tmp_path, NOW) == 3


KILLED = """
import os, signal, sys
from pathlib import Path
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
from app.config.durable import write_atomic
from datetime import datetime
from app.memory.diaries.files import create_note
"""


WRITES = {
    "file": "write_atomic(Path('.vcp/key'), b'x')",
    "diary": "create_note(Path('dailynote/N'), '2026.1.5', datetime(2026, 1, 5), 'txt', 'x')",
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_a_writer_that_was_killed_leaves_a_name_that_the_sweep_knows(tmp_path: Path, write: str) -> None:
    for folder in (".vcp", "dailynote/N"):
        (tmp_path / folder).mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", KILLED + write], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, timeout=60, check=False
    )
    (left,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    os.utime(left, (1, 1))
    assert sweep_leftovers(tmp_path, NOW) == 1
    assert not left.exists()
