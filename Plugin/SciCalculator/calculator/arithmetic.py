"""Exact and decimal numbers: what they are, and the operations on them with their limits."""

from __future__ import annotations

import ast
import cmath
import math
from fractions import Fraction

from .failure import CalculatorError
from .limits import check_bits, power_bits

Exact = int | Fraction
Real = int | Fraction | float
Number = int | Fraction | float | complex
Value = int | Fraction | float | complex | bool | list["Value"]

_CLOSE = 1e-14
"""Relative difference below which decimals count as equal: 0.1 + 0.2 == 0.3."""


def division_by_zero() -> CalculatorError:
    """The error for x / 0."""
    return CalculatorError("除数为零，没有结果", "division by zero has no result")


def out_of_range() -> CalculatorError:
    """The error for decimals that no longer fit."""
    return CalculatorError(
        "小数超出范围（约 1.8e308），请改用整数或对数",
        "a decimal left its range (about 1.8e308): use integers or logarithms",
    )


def settle(value: Number) -> Number:
    """The simplest form of a number: no fraction over 1, no complex number without an imaginary part, no infinity."""
    if isinstance(value, Fraction):
        check_bits(max(value.numerator.bit_length(), value.denominator.bit_length()))
        return value.numerator if value.denominator == 1 else value
    if isinstance(value, int):
        check_bits(value.bit_length())
        return value
    if isinstance(value, complex):
        if not cmath.isfinite(value):
            raise out_of_range()
        return value.real if value.imag == 0 else value
    if not math.isfinite(value):
        raise out_of_range()
    return value


def number(value: Value, role: str) -> Number:
    """The value if it is a number; ``role`` names its place for the error."""
    if isinstance(value, bool | list):
        raise CalculatorError(
            f"{role} 需要一个数，不能用列表或比较", f"{role} needs a number, not a list or a comparison"
        )
    return value


def real(value: Value, role: str) -> Real:
    """The value if it is a real number."""
    checked = number(value, role)
    if isinstance(checked, complex):
        raise CalculatorError(f"{role} 需要实数，不能用复数", f"{role} needs a real number, not a complex one")
    return checked


def whole(value: Value, role: str, least: int | None = None) -> int:
    """The value if it is an integer (2.0 counts), not below ``least``."""
    checked = real(value, role)
    if checked != int(checked) or (least is not None and checked < least):
        kind = ("整数", "an integer") if least is None else (f"不小于 {least} 的整数", f"an integer from {least} up")
        raise CalculatorError(f"{role} 需要{kind[0]}", f"{role} needs {kind[1]}")
    return int(checked)


def as_float(value: Real) -> float:
    """The nearest decimal."""
    try:
        return float(value)
    except OverflowError as error:
        raise out_of_range() from error


def as_complex(value: Number) -> complex:
    """The same number as a complex one."""
    return value if isinstance(value, complex) else complex(as_float(value))


def decimal_fraction(value: Real) -> Fraction:
    """The number as it is written: 2.675 is 2675/1000, not the nearest binary fraction."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def operate(operator: ast.operator, left: Number, right: Number) -> Number:
    """``left operator right``."""
    if isinstance(operator, ast.Pow):
        return settle(power(left, right))
    try:
        return settle(_operate(operator, left, right))
    except ZeroDivisionError as error:
        raise division_by_zero() from error
    except OverflowError as error:
        raise out_of_range() from error


def _operate(operator: ast.operator, left: Number, right: Number) -> Number:
    if isinstance(operator, ast.FloorDiv | ast.Mod):
        dividend, divisor = real(left, "// %"), real(right, "// %")
        return dividend // divisor if isinstance(operator, ast.FloorDiv) else dividend % divisor
    if isinstance(operator, ast.Div) and isinstance(left, int) and isinstance(right, int):
        return Fraction(left, right)
    # Fractions refuse to work with complex numbers.
    if isinstance(left, complex) or isinstance(right, complex):
        left, right = as_complex(left), as_complex(right)
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    return left / right


def power(base: Number, exponent: Number) -> Number:
    """``base ** exponent``, exact where it can be; the size is estimated before anything is computed."""
    if isinstance(base, int | Fraction) and isinstance(exponent, int):
        if base == 0 and exponent < 0:
            raise division_by_zero()
        if base not in (0, 1, -1):
            check_bits(power_bits(base.numerator, base.denominator, exponent))
        elif exponent > 1:
            exponent = 2 - exponent % 2  # the sign is all that can change; 1**10**5000 is 1
        return Fraction(base) ** exponent
    if isinstance(base, int | Fraction) and isinstance(exponent, Fraction) and base >= 0:
        exact = root(base, exponent.denominator) if exponent.denominator <= 64 else None
        if exact is not None:
            return power(settle(exact), exponent.numerator)
    try:
        if isinstance(base, complex) or isinstance(exponent, complex):
            return as_complex(base) ** as_complex(exponent)
        if base < 0 and exponent != int(exponent):
            return complex(as_float(base)) ** as_float(exponent)
        result: float = as_float(base) ** as_float(exponent)
    except ZeroDivisionError as error:
        raise division_by_zero() from error
    except OverflowError as error:
        raise out_of_range() from error
    return result


def root(value: Exact, degree: int) -> Exact | None:
    """The exact root of a rational number that is not negative, or None when it is not rational."""
    top, bottom = _whole_root(value.numerator, degree), _whole_root(value.denominator, degree)
    return None if top is None or bottom is None else Fraction(top, bottom)


def _whole_root(value: int, degree: int) -> int | None:
    if value < 2:
        return value
    if degree == 2:
        guess = math.isqrt(value)
        return guess if guess * guess == value else None
    # Newton's method on integers, from above.
    guess = 1 << -(-value.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + value // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess if guess**degree == value else None
        guess = better


def compare(operator: ast.cmpop, left: Number, right: Number) -> bool:
    """``left operator right``; decimals that differ by rounding only are equal."""
    equal = same(left, right)
    if isinstance(operator, ast.Eq | ast.NotEq):
        return equal is isinstance(operator, ast.Eq)
    first, second = real(left, "< >"), real(right, "< >")
    if isinstance(operator, ast.Lt):
        return first < second and not equal
    if isinstance(operator, ast.LtE):
        return first < second or equal
    if isinstance(operator, ast.Gt):
        return first > second and not equal
    return first > second or equal


def same(left: Number, right: Number) -> bool:
    """Equality; exact for exact numbers."""
    if isinstance(left, complex) or isinstance(right, complex):
        return cmath.isclose(as_complex(left), as_complex(right), rel_tol=_CLOSE)
    if left == right or not (isinstance(left, float) or isinstance(right, float)):
        return left == right
    try:
        return math.isclose(left, right, rel_tol=_CLOSE)
    except OverflowError:
        return False  # one of them is an integer that no decimal reaches
