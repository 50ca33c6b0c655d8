"""Backups and restores that are killed in the middle: whole files, or the old ones (kill -9)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from app.home.backup import write_backup
from app.home.lock import own_home, owner_of
from app.home.restore import restore, verified
from tests.home.installations import write
from tests.program import environment

STOPPING = """
import os, sys
from pathlib import Path
from app.cli import main

real, left = os.fsync, int(sys.argv[1])

def stop(descriptor):
    global left
    left -= 1
    if left < 0:
        print("stopped", flush=True)
        sys.stdin.read()
    real(descriptor)

os.fsync = stop
main(sys.argv[2:])
"""
"""A command that stands still at one of its writes, when the content is in the new file and not yet in its place."""


def killed(writes: int, *words: str | Path) -> None:
    process = subprocess.Popen(
        (sys.executable, "-c", STOPPING, str(writes), *map(str, words)),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "stopped\n" in iter(process.stdout.readline, "")
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_backup_that_is_killed_leaves_the_old_one(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "b.tar.gz"
    write(home, "config.env", "Key=1\n")
    write_backup(home, target, version="1")
    old = target.read_bytes()
    write(home, "config.env", "Key=2\n")
    killed(0, "backup", target, "--force", "--home", home)
    assert target.read_bytes() == old
    assert {path.name for path in tmp_path.iterdir() if not path.name.endswith(".tmp")} == {"home", "b.tar.gz"}
    write_backup(home, target, version="1", replace=True)
    verified(target)


def test_a_restore_that_is_killed_leaves_whole_files_and_can_be_repeated(tmp_path: Path) -> None:
    old, home, target = tmp_path / "old", tmp_path / "home", tmp_path / "b.tar.gz"
    for name in ("a", "b", "c"):
        write(old, f"Agent/{name}.txt", f"saved {name}")
        write(home, f"Agent/{name}.txt", f"there {name}")
    write_backup(old, target, version="1")
    killed(3, "restore", target, "--force", "--home", home)  # two writes tell who owns the home, then a.txt, b.txt …
    texts = {path.name: path.read_text() for path in (home / "Agent").glob("*.txt")}
    assert set(texts) == {"a.txt", "b.txt", "c.txt"}
    assert all(text in (f"saved {name[0]}", f"there {name[0]}") for name, text in texts.items())
    assert "saved a" in texts.values()
    assert "there c" in texts.values()
    assert owner_of(home) is None
    with own_home(home, "restore"):
        restore(target, home, verified(target), force=True)
    assert {path.name: path.read_text() for path in (home / "Agent").glob("*.txt")} == {
        f"{name}.txt": f"saved {name}" for name in "abc"
    }
