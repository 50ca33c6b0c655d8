"""The matrix in its file, and the best of many scores (memory.md 9.3)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.vectors import matrix
from app.memory.vectors.matrix import MatrixFile, best, scores_of, unit


def vectors(count: int, dimension: int = 4) -> np.ndarray:
    found = np.random.default_rng(3).normal(size=(count, dimension)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_rows_are_there_again_after_the_file_was_closed(tmp_path: Path) -> None:
    made = vectors(3)
    file = MatrixFile(tmp_path / "sets" / "1.f32", 4)
    file.open()
    file.write({0: made[0], 7: made[1]})
    held = file.rows
    file.write({matrix.GROWTH_ROWS + 5: made[2]})
    assert np.array_equal(held[7], made[1])  # a reader goes on with what it took
    file.close()
    file.open()
    assert np.array_equal(file.rows[[0, 7, matrix.GROWTH_ROWS + 5]], made)
    assert (tmp_path / "sets" / "1.f32").stat().st_mode & 0o777 == 0o600
    file.close()


def test_a_full_disk_leaves_the_rows_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = MatrixFile(tmp_path / "1.f32", 4)
    file.open()
    made = vectors(2)
    file.write({0: made[0]})

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="space"):
        file.write({file.capacity: made[1]})
    assert np.array_equal(file.rows[0], made[0])
    file.close()


@pytest.mark.parametrize("wanted", [[0], [3, 1], list(range(50)), [49, 0, 7]])
def test_scores_are_cosines_in_the_order_that_was_asked_for(wanted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 64)
    rows = vectors(50)
    scores = scores_of(rows, rows[7], np.asarray(wanted))
    assert np.allclose(scores, [float(rows[one] @ rows[7]) for one in wanted], atol=1e-6)


@given(st.lists(st.integers(-3, 3), max_size=40), st.integers(-1, 50))
def test_the_best_are_those_of_a_sorted_list(scores: list[int], limit: int) -> None:
    wanted = sorted(range(len(scores)), key=lambda one: (-scores[one], one))[: max(0, limit)]
    assert best(np.asarray(scores, np.float32), limit).tolist() == wanted


@pytest.mark.parametrize("broken", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [[1.0, 0.0]]])
def test_what_has_no_direction_is_no_vector(broken: list[float]) -> None:
    assert unit(broken) is None


def test_a_vector_gets_length_one() -> None:
    found = unit([3.0, 4.0])
    assert found is not None
    assert found.tolist() == pytest.approx([0.6, 0.8])
    assert found.dtype == np.float32
