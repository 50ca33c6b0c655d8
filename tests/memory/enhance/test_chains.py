"""Thinking chains as numbers (memory.md 5.5; M6 of 10.6)."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from app.memory.embedders.embedder import Calibration, Vector
from app.memory.enhance.chains import (
    N2025,
    RECURSIVE,
    ChainMode,
    StageFound,
    StageHit,
    chosen_theme,
    mean_vector,
    moved,
    walk_chain,
)

Q = np.array([1, 0], dtype=np.float32)
R = np.array([0, 1], dtype=np.float32)


def test_a_step_of_either_mode_moves_the_thought_as_documented_and_as_measured() -> None:
    """M6: N (0.8, 0.2) with the original question; documented (0.4, 0.6), brought to length 1."""
    assert moved(Q, R, R, N2025).tolist() == pytest.approx([0.8, 0.2])
    assert moved(Q, Q, R, RECURSIVE).tolist() == pytest.approx([0.5547, 0.83205], abs=1e-5)


def walk(mode: ChainMode, start: Vector | None = None) -> tuple[list[list[float] | None], list[tuple[int, bool]]]:
    asked: list[list[float] | None] = []

    async def search(vector: Vector | None, cluster: str, k: int) -> StageFound:
        asked.append(None if vector is None else [round(float(number), 4) for number in vector])
        if cluster == "空":
            return StageFound((), None)
        return StageFound((StageHit(1, "模块", 0.5),), np.stack([R, R]))

    stages = asyncio.run(walk_chain(["甲", "空", "乙"], [1, 2, 3], Q, start, search, mode))
    return asked, [(stage.k, stage.degraded) for stage in stages]


def test_each_stage_is_searched_with_what_the_one_before_made_and_an_empty_one_changes_nothing() -> None:
    asked, stages = walk(RECURSIVE)
    assert asked == [[1.0, 0.0], [0.5547, 0.8321], [0.5547, 0.8321]]
    assert stages == [(1, False), (2, True), (3, False)]


def test_in_the_matched_version_the_boost_of_groups_is_gone_after_the_first_stage() -> None:
    boosted = np.array([0.6, 0.8], dtype=np.float32)
    asked, _ = walk(N2025, boosted)
    assert asked == [[0.6, 0.8], [0.8, 0.2], [0.8, 0.2]]


def test_without_vectors_a_chain_is_still_gone_through() -> None:
    async def search(vector: Vector | None, cluster: str, k: int) -> StageFound:
        assert vector is None
        return StageFound((StageHit(1, "模块", 0.5),), None, "words only")

    stages = asyncio.run(walk_chain(["甲", "乙"], [1, 1], None, None, search))
    assert [(stage.degraded, stage.fault, stage.vector) for stage in stages] == [(False, "words only", None)] * 2


def test_the_mean_of_a_stage_leaves_out_what_is_no_vector() -> None:
    assert mean_vector(None) is None
    assert mean_vector(np.zeros((0, 2), dtype=np.float32)) is None
    mean = mean_vector(np.array([[1, 0], [0, 1], [np.nan, 1]], dtype=np.float32))
    assert mean is not None
    assert mean.tolist() == [0.5, 0.5]


def test_auto_mode_takes_the_nearest_theme_that_is_near_enough_else_the_default() -> None:
    near, far = np.array([0.8, 0.6], dtype=np.float32), np.array([0.1, 0.995], dtype=np.float32)
    themes: dict[str, Vector | None] = {"近": near, "远": far, "default": Q, "无": None}
    assert chosen_theme(Q, themes, 0.65, None) == "近"
    assert chosen_theme(Q, themes, 0.85, None) == "default"
    assert chosen_theme(None, themes, 0.0, None) == "default"
    # cosine .8 is five deviations above chance here: 0.8; under a model whose chance is .7 it is one: 0.4
    assert chosen_theme(Q, themes, 0.75, Calibration(0.3, 0.1)) == "近"
    assert chosen_theme(Q, themes, 0.65, Calibration(0.7, 0.1)) == "default"
