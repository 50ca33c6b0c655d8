"""Texts of any length fit into the model (memory.md 3.4)."""

from __future__ import annotations

import pytest

from app.memory.embedders.cutting import cut
from app.protocol.token_estimate import estimated_tokens


@pytest.mark.parametrize(
    "text", ["日记" * 500, "plain words " * 900, "混合 mixed 文本 text " * 300, "\U0001f600" * 900, "x"]
)
@pytest.mark.parametrize("limit", [1, 2, 64, 511])
def test_the_beginning_that_fits_is_kept_and_no_more_would_fit(text: str, limit: int) -> None:
    kept = cut(text, limit)
    assert text.startswith(kept) and kept
    assert estimated_tokens(kept) <= max(1, limit)
    assert kept == text or estimated_tokens(text[: len(kept) + 1]) > limit


def test_eight_megabytes_are_no_work() -> None:
    assert len(cut("字" * (8 << 20), 512)) == 512
