"""One reading of yes and no for all tools (memory.md 6.1)."""

from __future__ import annotations

import pytest

from app.protocol.truth import truth


@pytest.mark.parametrize("word", ["true", " TRUE ", "1", "yes", "On", "是", "开启", True, 1, 0.5])
def test_these_mean_yes(word: object) -> None:
    assert truth(word)
    assert truth(word, default=True)


@pytest.mark.parametrize("word", ["false", "False", "0", "no", "off", "否", "关闭", False, 0])
def test_these_mean_no(word: object) -> None:
    assert not truth(word)
    assert not truth(word, default=True)


@pytest.mark.parametrize("word", ["perhaps", "2", None, [], {}])
def test_everything_else_means_the_default(word: object) -> None:
    assert not truth(word)
    assert truth(word, default=True)
