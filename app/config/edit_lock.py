"""The lock of files that people edit: writers of one installation wait for each other, whatever they write."""

from __future__ import annotations

from pathlib import Path

LOCK_FILE = Path(".vcp", "edited.lock")
"""Below the home."""


def edit_lock(home: Path) -> Path:
    """The lock file of a home, whose folder is made; raises OSError."""
    lock = home / LOCK_FILE
    lock.parent.mkdir(mode=0o700, exist_ok=True)
    return lock
