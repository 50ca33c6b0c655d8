"""Every limit of the calculator by name, and the checks of sizes."""

from __future__ import annotations

import math

from .failure import CalculatorError

MAX_EXPRESSION_CHARS = 10_000
MAX_EXPRESSIONS = 50
MAX_NODES = 10_000
MAX_DEPTH = 100
MAX_DIGITS = 10_000
"""Decimal digits of an exact number."""
MAX_BITS = 33_219
"""The same in bits."""
MAX_LIST_ITEMS = 5_000
MAX_MATRIX_SIDE = 10
MAX_DERIVATIVES = 50
MAX_SERIES_TERMS = 50
MAX_RESULT_CHARS = 12_000
MAX_MEMORY_BYTES = 1024 * 1024 * 1024
DEFAULT_SECONDS = 10.0
MIN_SECONDS = 0.05
MAX_SECONDS = 600.0
STACK_FRAMES = 12_000
"""Python's recursion limit while calculating: long sums are deep trees for the parser."""


def check_bits(bits: float) -> None:
    """Refuse an exact number before it is made; ``bits`` is about its length."""
    if not bits <= MAX_BITS:
        digits = f"约 10^{math.log10(bits * math.log10(2)):.0f} 位" if math.isfinite(bits) else "位数无法估计"
        raise CalculatorError(
            f"结果太大（{digits}，精确整数的上限是 {MAX_DIGITS} 位），请改用对数，例如 b*log10(a)",
            f"the result is too large (exact numbers have at most {MAX_DIGITS} digits); use logarithms",
        )


def power_bits(numerator: int, denominator: int, exponent: float) -> float:
    """About how many bits the power of a rational number has."""
    longest = max(abs(numerator), denominator)
    if longest <= 1:
        return 0.0
    try:
        return math.log2(longest) * abs(exponent)
    except OverflowError:  # an exponent that is itself longer than a float can hold
        return math.inf


def factorial_bits(n: float) -> float:
    """About how many bits ``n!`` has."""
    return math.lgamma(n + 1) / math.log(2) if n < 1e300 else math.inf


def check_items(count: int) -> None:
    """Refuse a list that is too long."""
    if count > MAX_LIST_ITEMS:
        raise CalculatorError(
            f"列表有 {count} 项，上限是 {MAX_LIST_ITEMS} 项",
            f"the list has {count} items, the limit is {MAX_LIST_ITEMS}",
        )
