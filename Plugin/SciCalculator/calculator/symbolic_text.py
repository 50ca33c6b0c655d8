"""Formulas, solutions and matrices as one line of text."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import sympy

from .failure import CalculatorError
from .rendering import DIGITS, fraction
from .rendering import render as render_number
from .solutions import Solutions

_MAX_EXACT_CHARS = 200
"""A longer exact form of a number is left out; its decimal says it."""


_NAMES = {"oo": "∞", "I": "i", "E": "e"}
_NAME = re.compile(r"\b(?:oo|I|E)\b")


def render(value: Any) -> str:
    """The text of a value. An exact number that is no fraction is followed by its decimal."""
    if isinstance(value, Solutions):
        return _solutions(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "[" + ", ".join(render(item) for item in value) + "]"
    if isinstance(value, sympy.MatrixBase):
        return render(value.tolist())
    if isinstance(value, sympy.logic.boolalg.Boolean):
        return _one_line(value)
    return _formula(value)


def _formula(value: Any) -> str:
    if value.has(sympy.nan, sympy.zoo):
        raise CalculatorError("结果没有定义（例如除以零或 ∞-∞）", "the result is undefined (for instance x/0 or ∞-∞)")
    if value in (sympy.oo, -sympy.oo):
        return "∞" if value == sympy.oo else "-∞"
    if isinstance(value, sympy.Integer):
        return str(int(value))
    if isinstance(value, sympy.Rational):
        return fraction(Fraction(int(value.p), int(value.q)))
    if isinstance(value, sympy.Float):
        return render_number(float(value))
    exact = _one_line(value)
    if not value.is_number:
        return exact
    decimal = _decimal(value)
    if value.has(sympy.Float):
        return decimal
    if decimal == exact:
        return exact
    hidden = len(exact) > _MAX_EXACT_CHARS or value.has(sympy.Integral, sympy.Sum, sympy.CRootOf)
    return f"≈ {decimal}" if hidden else f"{exact} ≈ {decimal}"


def _decimal(value: Any) -> str:
    # Numeric integrals give up when they are asked for more than the usual precision.
    number = value.evalf(DIGITS)
    if number.has(sympy.nan, sympy.zoo):
        raise CalculatorError("结果没有定义", "the result is undefined")
    real, imaginary = number.as_real_imag()
    if not (real.is_Rational or real.is_Float) or not (imaginary.is_Rational or imaginary.is_Float):
        raise CalculatorError("无法算出数值", "no number could be computed")
    try:
        return render_number(complex(number) if imaginary != 0 else float(number))
    except OverflowError:
        return _one_line(number)


def _solutions(value: Solutions) -> str:
    if value.condition is not None:
        return "无解 (no solution)" if value.condition == sympy.false else _one_line(value.condition)
    if not value.rows:
        return "没有找到解 (no solution found)"
    rows = [", ".join(f"{name} = {render(part)}".replace("= ≈", "≈") for name, part in row) for row in value.rows]
    several = any(len(row) > 1 for row in value.rows) and len(rows) > 1
    return ", ".join(f"({row})" for row in rows) if several else ", ".join(rows)


def _one_line(value: Any) -> str:
    return _NAME.sub(lambda name: _NAMES[name[0]], " ".join(str(value).split()))
