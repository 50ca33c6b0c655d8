"""Vectors without a model (memory.md 8.5)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from app.memory.embedders.calibration import calibrated
from app.memory.embedders.hashing import CALIBRATION, DIMENSION, HashingEmbedder, hashed

ROOT = Path(__file__).resolve().parents[3]
TEXT = "今天和小克讨论了向量数据库 Vector DB"


def test_it_is_the_same_in_every_process() -> None:
    code = (
        "from hashlib import sha256;from app.memory.embedders.hashing import hashed;"
        f"print(sha256(hashed({TEXT!r}).tobytes()).hexdigest())"
    )
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert found.stdout.strip() == sha256(hashed(TEXT).tobytes()).hexdigest()


@pytest.mark.parametrize("text", ["", " \n", "a", TEXT, "\ud800", "\0", "x" * 100_000])
def test_every_text_has_a_vector_of_length_one(text: str) -> None:
    vector = hashed(text)
    assert vector.shape == (DIMENSION,) and vector.dtype == np.float32
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)


def test_capitals_widths_and_white_space_make_no_difference() -> None:
    assert np.array_equal(hashed("Vector  ＤＢ\n"), hashed("vector db"))


def test_texts_that_share_characters_are_near() -> None:
    query = hashed("昨天我们讨论了向量数据库的索引")
    near, far = hashed("讨论向量数据库索引的笔记"), hashed("妈妈做的红烧肉很好吃")
    assert float(query @ near) > 0.4 > 0.2 > float(query @ far)
    assert calibrated(float(query @ near), CALIBRATION) > 0.6 > calibrated(float(query @ far), CALIBRATION)


def test_the_embedder_answers_by_id_and_never_fails() -> None:
    async def main() -> None:
        embedder = HashingEmbedder()
        await embedder.start()
        answer = await embedder.embed_passages({"b": TEXT, "a": "x" * 40_000})
        assert list(answer.vectors) == ["b", "a"] and not answer.failed
        assert np.array_equal(answer.vectors["b"], await embedder.embed_query(TEXT))
        assert (await embedder.embed_passages({})).vectors == {}
        await embedder.stop()

    asyncio.run(main())
