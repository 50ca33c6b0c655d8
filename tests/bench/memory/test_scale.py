"""Search in many vectors: synthetic ones are always the same, recall is against the exact answer, edits are seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.memory.scale import BLOCK, DIMENSIONS, Exact, Truth, main, questions, vectors


def test_vectors_are_the_same_each_time_and_of_unit_length() -> None:
    one, two = (np.vstack([rows for _, rows in vectors(BLOCK + 50)]) for _ in range(2))
    assert np.array_equal(one, two) and one.shape == (BLOCK + 50, DIMENSIONS)
    assert np.allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)
    assert np.allclose(np.linalg.norm(questions(500, 20), axis=1), 1, atol=1e-5)


def test_the_exact_answer_found_block_by_block_is_that_of_the_whole() -> None:
    asked = questions(1000, 5)
    truth = Truth(asked, 10)
    _, rows = next(vectors(1000))
    for begin in range(0, 1000, 300):
        truth.see(np.arange(begin, min(begin + 300, 1000)), rows[begin : begin + 300])
    whole = [np.argsort(-(rows @ question), kind="stable")[:10] for question in asked]
    assert truth.recall(whole) == 1.0
    assert truth.recall([np.arange(2000, 2010)] * 5) == 0.0


def test_exact_search_finds_what_was_added_and_not_what_was_removed() -> None:
    engine = Exact(100)
    ids, rows = next(vectors(100))
    engine.add(ids, rows)
    assert engine.search(rows[7], 3)[0] == 7
    engine.remove(np.array([7, 99, 3]))
    assert 7 not in engine.search(rows[7], 20) and engine.search(rows[42], 1)[0] == 42
    engine.add(np.array([500]), rows[7:8])
    assert engine.search(rows[7], 1)[0] == 500


def test_a_small_run_in_a_process_of_its_own_tells_all_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--sizes", "300", "--questions", "5", "--json", str(tmp_path / "figures.json")])
    (row,) = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert row["recall"] == 1.0 and row["size"] == 300
    assert "recall@10" in capsys.readouterr().out
