"""A sync that is killed at any moment heals (memory.md 11.3): the index equals a clean rebuild."""

from __future__ import annotations

from pathlib import Path

from bench.memory.kill_sync import killed_syncs


def test_an_index_whose_sync_was_killed_equals_a_clean_rebuild(tmp_path: Path) -> None:
    """kill -9 of a child that syncs, five times; ``make soak`` does it a hundred times."""
    outcome = killed_syncs(tmp_path, rounds=5, seed=7, notes=40)
    assert outcome.rounds == 5
    assert outcome.different == 0
