"""Numbers as text: integers in full, fractions with their decimal, decimals with 15 significant digits."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from .arithmetic import Value

DIGITS = 15
_SHORT_FRACTION = 60
"""Longest fraction, in characters, that is shown beside its decimal."""
_NOISE = 1e-14
"""A part of a complex number below this share of the other part is rounding."""

_CONTEXT = Context(prec=DIGITS)


def render(value: Value) -> str:
    """The text of a value, on one line."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(render(item) for item in value) + "]"
    if isinstance(value, complex):
        return _complex(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Fraction):
        return fraction(value)
    return _decimal(value)


def fraction(value: Fraction) -> str:
    """``3.5`` where the decimal ends soon, ``1/3 ≈ 0.333333333333333`` where it does not."""
    top, bottom = Decimal(value.numerator), Decimal(value.denominator)
    short = _CONTEXT.divide(_CONTEXT.plus(top), _CONTEXT.plus(bottom)).normalize(_CONTEXT)
    text = _tidy(short)
    if value.denominator == 1 or Fraction(short) == value:
        return text
    exact = f"{value.numerator}/{value.denominator}" if _digits(value) <= _SHORT_FRACTION else ""
    return f"{exact} ≈ {text}" if exact else f"≈ {text}"


def _digits(value: Fraction) -> float:
    return (value.numerator.bit_length() + value.denominator.bit_length()) * 0.302


def _tidy(value: Decimal) -> str:
    exponent = value.adjusted()
    return f"{value:f}" if -7 < exponent < DIGITS + 1 else f"{value:e}"


def _decimal(value: float) -> str:
    text = f"{value:.{DIGITS}g}"
    return "0" if text == "-0" else text


def _complex(value: complex) -> str:
    real, imaginary = value.real, value.imag
    if abs(imaginary) < _NOISE * abs(real):
        return _decimal(real)
    sign, size = ("-" if imaginary < 0 else "+"), _decimal(abs(imaginary))
    part = "i" if size == "1" else f"{size}*i"
    if abs(real) < _NOISE * abs(imaginary):
        return part if sign == "+" else f"-{part}"
    return f"{_decimal(real)} {sign} {part}"
