"""The one error of the calculator."""

from __future__ import annotations


class CalculatorError(Exception):
    """The expression has no value. The text names the thing at fault and the way out, in Chinese and English."""

    def __init__(self, chinese: str, english: str) -> None:
        super().__init__(f"{chinese} / {english}")
