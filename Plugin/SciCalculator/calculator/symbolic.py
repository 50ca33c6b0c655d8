"""Walks a checked tree with sympy objects. sympy never gets text: it would evaluate it as code (design.md, trap 7)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import sympy

from . import numeric
from .arithmetic import Value, division_by_zero
from .failure import CalculatorError
from .formulas import OPERATIONS
from .functions import ALIASES, FUNCTIONS, call, check_count
from .limits import check_bits, factorial_bits, power_bits
from .reading import operands
from .solutions import solve
from .symbolic_text import render

Symbolic = Any
"""A sympy object, or a list of them; sympy has no types of its own."""


def calculate(tree: ast.expr) -> str:
    """The value of a tree with variables or formula functions, as text. An equation with variables is solved."""
    if isinstance(tree, ast.Tuple):
        raise CalculatorError(
            "逗号只用来分隔参数；列表请写 [a, b]", "commas separate arguments; lists are written [a, b]"
        )
    value = _walk(tree)
    if isinstance(tree, ast.Compare) and isinstance(value, sympy.core.relational.Relational):
        value = solve(value)
    return render(value)


def _walk(node: ast.expr) -> Symbolic:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return _from_number(numeric.evaluate(node))
    if isinstance(node, ast.Name):
        return _CONSTANTS.get(node.id) or sympy.Symbol(node.id)
    if isinstance(node, ast.BinOp):
        inner, steps = operands(node)
        value = _walk(inner)
        for step in steps:
            value = _operate(step.op, formula(value), formula(_walk(step.right)))
        return value
    if isinstance(node, ast.UnaryOp):
        value = formula(_walk(node.operand))
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, node)
    if isinstance(node, ast.List | ast.Tuple):
        return [_walk(item) for item in node.elts]
    if isinstance(node, ast.Compare):
        return _compare(node)
    raise CalculatorError("不支持这种写法", "this notation is not supported")


def formula(value: Symbolic) -> Symbolic:
    """The value if arithmetic can be done with it."""
    if isinstance(value, sympy.Expr | sympy.MatrixBase):
        return value
    raise CalculatorError(
        "这里需要一个算式，不能用列表、等式或方程的解", "a formula is needed here, not a list, an equation or solutions"
    )


def _from_number(value: Value) -> Symbolic:
    """A number of the calculator as a sympy object; decimals as the fractions they are written as."""
    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, list):
        return [_from_number(item) for item in value]
    if isinstance(value, complex):
        return _from_number(value.real) + _from_number(value.imag) * sympy.I
    if isinstance(value, float):
        value = Fraction(repr(value))
    if isinstance(value, Fraction):
        return sympy.Rational(value.numerator, value.denominator)
    return sympy.Integer(value)


def _operate(operator: ast.operator, left: Symbolic, right: Symbolic) -> Symbolic:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.Pow):
        return _power(left, right)
    if right.is_zero is True:
        raise division_by_zero()
    if isinstance(operator, ast.Div):
        return left / right
    return sympy.floor(left / right) if isinstance(operator, ast.FloorDiv) else sympy.Mod(left, right)


def _power(base: Symbolic, exponent: Symbolic) -> Symbolic:
    """A power; sympy multiplies numbers out at once, so their size is estimated first."""
    if isinstance(exponent, sympy.Rational):
        if isinstance(base, sympy.Rational):
            if base.is_zero and exponent < 0:
                raise division_by_zero()
            check_bits(power_bits(int(base.p), int(base.q), abs(int(exponent)) + 1))
        elif isinstance(base, sympy.MatrixBase):
            check_bits(abs(int(exponent)) * 64)
    return base**exponent


def _compare(node: ast.Compare) -> Symbolic:
    if len(node.ops) != 1:
        raise CalculatorError("含变量时一次只能写一个比较", "with variables write one comparison at a time")
    left, right = formula(_walk(node.left)), formula(_walk(node.comparators[0]))
    try:
        return _RELATIONS[type(node.ops[0])](left, right)
    except TypeError:  # sympy's word for numbers without an order: complex ones, and what is no number at all
        raise CalculatorError("复数之间没有大小之分", "complex numbers have no order, compare real ones") from None


def _call(name: str, node: ast.Call) -> Symbolic:
    name = _NAMES.get(name, name)
    if name in OPERATIONS:
        operation = OPERATIONS[name]
        check_count(name, len(node.args), operation.least, operation.most)
        return operation.apply([_walk(argument) for argument in node.args])
    arguments = [_walk(argument) for argument in node.args]
    if name in _FUNCTIONS:
        function = FUNCTIONS[name]
        check_count(name, len(arguments), function.least, function.most)
        if not any(isinstance(argument, list) for argument in arguments):
            return _FUNCTIONS[name](*(formula(argument) for argument in arguments))
    # What sympy has no counterpart of (statistics, rounding) works on numbers.
    return _from_number(call(name, [_to_number(argument, name) for argument in arguments]))


def _to_number(value: Symbolic, name: str) -> Value:
    if isinstance(value, list):
        return [_to_number(item, name) for item in value]
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, sympy.Rational):
        return Fraction(int(value.p), int(value.q))
    if isinstance(value, sympy.Expr) and value.is_number:
        number = complex(value.evalf())
        return number if number.imag else number.real
    raise CalculatorError(f"{name} 只能用于数，不能含变量", f"{name} works on numbers only, not on variables")


def _factorial(n: Symbolic) -> Symbolic:
    if n.is_number:
        if not n.is_real:
            raise CalculatorError("阶乘需要实数", "a factorial needs a real number")
        check_bits(factorial_bits(abs(float(n))))
    return sympy.factorial(n)


def _log(value: Symbolic, base: Symbolic = sympy.E) -> Symbolic:
    if base in (0, 1):
        raise CalculatorError("对数的底不能是 0 或 1", "the base of a logarithm is neither 0 nor 1")
    return sympy.log(value, base)


def _gamma(n: Symbolic) -> Symbolic:
    if n.is_number and n.is_real:
        check_bits(factorial_bits(abs(float(n))))
    return sympy.gamma(n)


def _binomial(n: Symbolic, k: Symbolic) -> Symbolic:
    if n.is_number and k.is_number:
        check_bits(min(factorial_bits(abs(float(n))), abs(float(k)) * 34))
    return sympy.binomial(n, k)


_CONSTANTS: Mapping[str, Symbolic] = MappingProxyType(
    {
        "pi": sympy.pi,
        "e": sympy.E,
        "E": sympy.E,
        "tau": 2 * sympy.pi,
        "i": sympy.I,
        "I": sympy.I,
        "oo": sympy.oo,
        "inf": sympy.oo,
        "infinity": sympy.oo,
        "left": sympy.Symbol("left"),
        "right": sympy.Symbol("right"),
    }
)

_RELATIONS: Mapping[type[ast.cmpop], Callable[..., Symbolic]] = MappingProxyType(
    {
        ast.Eq: sympy.Eq,
        ast.NotEq: sympy.Ne,
        ast.Lt: sympy.Lt,
        ast.LtE: sympy.Le,
        ast.Gt: sympy.Gt,
        ast.GtE: sympy.Ge,
    }
)

_NAMES: Mapping[str, str] = MappingProxyType({**ALIASES, "derivative": "diff", "integral": "integrate"})

_FUNCTIONS: Mapping[str, Callable[..., Symbolic]] = MappingProxyType(
    {
        "sin": sympy.sin,
        "cos": sympy.cos,
        "tan": sympy.tan,
        "cot": sympy.cot,
        "sec": sympy.sec,
        "csc": sympy.csc,
        "asin": sympy.asin,
        "acos": sympy.acos,
        "atan": sympy.atan,
        "atan2": sympy.atan2,
        "sinh": sympy.sinh,
        "cosh": sympy.cosh,
        "tanh": sympy.tanh,
        "asinh": sympy.asinh,
        "acosh": sympy.acosh,
        "atanh": sympy.atanh,
        "degrees": lambda x: x * 180 / sympy.pi,
        "radians": lambda x: x * sympy.pi / 180,
        "sqrt": sympy.sqrt,
        "cbrt": sympy.cbrt,
        "root": lambda x, n: _power(x, 1 / n),
        "exp": sympy.exp,
        "log": _log,
        "ln": _log,
        "log2": lambda x: sympy.log(x, 2),
        "log10": lambda x: sympy.log(x, 10),
        "pow": lambda x, y: _power(x, y),
        "abs": sympy.Abs,
        "sign": sympy.sign,
        "floor": sympy.floor,
        "ceil": sympy.ceiling,
        "mod": sympy.Mod,
        "re": sympy.re,
        "im": sympy.im,
        "conjugate": sympy.conjugate,
        "arg": sympy.arg,
        "factorial": _factorial,
        "comb": _binomial,
        "gamma": _gamma,
        "lgamma": sympy.loggamma,
        "erf": sympy.erf,
        "erfc": sympy.erfc,
        "min": sympy.Min,
        "max": sympy.Max,
    }
)
