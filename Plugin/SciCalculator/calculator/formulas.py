"""The functions that work on formulas: calculus, algebra, equations, matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import sympy

from .failure import CalculatorError
from .limits import MAX_DERIVATIVES, MAX_LIST_ITEMS, MAX_MATRIX_SIDE, MAX_SERIES_TERMS
from .solutions import solve, solve_near
from .symbolic_text import render

Symbolic = Any
Arguments = list[Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its least and greatest number of arguments, and its code."""

    least: int
    most: int
    apply: Callable[[Arguments], Symbolic]


def _formula(value: Symbolic, name: str) -> Symbolic:
    if not isinstance(value, sympy.Expr):
        raise CalculatorError(f"{name} 需要一个算式", f"{name} needs a formula")
    return value


def _variable(value: Symbolic, name: str) -> Symbolic:
    if not isinstance(value, sympy.Symbol):
        raise CalculatorError(f"{name} 的变量必须是字母，例如 x", f"the variable of {name} must be a letter such as x")
    return value


def _only_variable(value: Symbolic, name: str) -> Symbolic:
    """The variable of a formula that has one; x when it has none."""
    free = value.free_symbols
    if len(free) > 1:
        raise CalculatorError(
            f"算式里有几个字母，请写明变量，例如 {name}(..., x)",
            f"several letters occur: name the variable, {name}(..., x)",
        )
    return next(iter(free)) if free else sympy.Symbol("x")


def _whole(value: Symbolic, name: str, most: int) -> int:
    if not isinstance(value, sympy.Integer) or not 1 <= value <= most:
        raise CalculatorError(f"{name} 的次数应为 1..{most} 的整数", f"{name} takes an integer from 1 to {most}")
    return int(value)


def _diff(arguments: Arguments) -> Symbolic:
    expression, rest = _formula(arguments[0], "diff"), arguments[1:]
    if not rest or isinstance(rest[0], sympy.Integer):
        rest = [_only_variable(expression, "diff"), *rest]
    order: list[Symbolic] = []
    for item in rest:
        if isinstance(item, sympy.Integer) and order:
            order += [order[-1]] * (_whole(item, "diff", MAX_DERIVATIVES) - 1)
        else:
            order.append(_variable(item, "diff"))
    if len(order) > MAX_DERIVATIVES:
        raise CalculatorError(f"最多求 {MAX_DERIVATIVES} 阶导数", f"at most {MAX_DERIVATIVES} derivatives")
    if expression.has(sympy.Abs):
        # Over the complex numbers |x| has no derivative that anyone wants to read.
        real = {symbol: sympy.Symbol(symbol.name, real=True) for symbol in expression.free_symbols | set(order)}
        back = {known: symbol for symbol, known in real.items()}
        return sympy.diff(expression.xreplace(real), *(real[symbol] for symbol in order)).xreplace(back)
    return sympy.diff(expression, *order)


def _integrate(arguments: Arguments) -> Symbolic:
    expression, rest = _formula(arguments[0], "integrate"), arguments[1:]
    variable = bounds = None
    if len(rest) == 1 and isinstance(rest[0], list):
        rest = rest[0]  # (x, a, b) or (a, b)
    if rest and isinstance(rest[0], sympy.Symbol) and len(rest) != 2:
        variable, rest = rest[0], rest[1:]
    elif len(rest) == 2 and isinstance(rest[1], list):
        variable, rest = _variable(rest[0], "integrate"), rest[1]
    if len(rest) == 2:
        bounds = [_formula(rest[0], "integrate"), _formula(rest[1], "integrate")]
    elif rest:
        raise CalculatorError(
            "积分写作 integrate(算式, x) 或 integrate(算式, x, a, b)",
            "integrals are written integrate(formula, x) or integrate(formula, x, a, b)",
        )
    variable = _only_variable(expression, "integrate") if variable is None else variable
    result = sympy.integrate(expression, variable if bounds is None else (variable, *bounds))
    if bounds is None:
        if not result.has(sympy.Integral):
            return result
        raise CalculatorError(
            "没有找到原函数；定积分可写 integrate(算式, x, a, b) 求数值",
            "no antiderivative was found; integrate(formula, x, a, b) gives the number of a definite integral",
        )
    if result.has(sympy.Integral):
        return sympy.Integral(expression, (variable, *bounds))  # as it was asked: evaluated halfway it has no decimal
    return result


def _limit(arguments: Arguments) -> Symbolic:
    expression = _formula(arguments[0], "limit")
    if len(arguments) == 2:
        arguments = [expression, _only_variable(expression, "limit"), arguments[1]]
    variable, point = _variable(arguments[1], "limit"), _formula(arguments[2], "limit")
    side = str(getattr(arguments[3], "name", "")) if len(arguments) == 4 else ""
    if len(arguments) == 4 and side not in ("left", "right"):
        raise CalculatorError("极限方向写 left 或 right", "the side of a limit is left or right")
    right = sympy.limit(expression, variable, point, "+") if side != "left" else None
    if side == "right" or point.is_infinite:
        return right
    left = sympy.limit(expression, variable, point, "-")
    if side == "left" or left == right or sympy.simplify(left - right) == 0:
        return left
    raise CalculatorError(
        f"极限不存在：左极限 {render(left)}，右极限 {render(right)}",
        f"the limit does not exist: {render(left)} from the left, {render(right)} from the right",
    )


def _solve(arguments: Arguments) -> Symbolic:
    variables: list[Symbolic] = []
    for item in arguments[1:]:
        variables += item if isinstance(item, list) else [item]
    for equation in arguments[0] if isinstance(arguments[0], list) else [arguments[0]]:
        if not isinstance(equation, sympy.Expr | sympy.logic.boolalg.Boolean):
            raise CalculatorError(
                "solve 的第一项应为方程，例如 solve(x^2 = 4, x)", "solve takes equations: solve(x^2 = 4, x)"
            )
    return solve(arguments[0], [_variable(item, "solve") for item in variables])


def _solve_near(arguments: Arguments) -> Symbolic:
    if len(arguments) == 2:
        arguments = [arguments[0], _only_variable(arguments[0], "nsolve"), arguments[1]]
    start = _formula(arguments[2], "nsolve")
    if not start.is_number:
        raise CalculatorError("nsolve 的初值必须是数", "the start of nsolve must be a number")
    return solve_near(arguments[0], _variable(arguments[1], "nsolve"), start)


def _factor(arguments: Arguments) -> Symbolic:
    expression = _formula(arguments[0], "factor")
    if isinstance(expression, sympy.Integer) and abs(expression) > 1:
        primes = sympy.factorint(abs(expression))
        product = "*".join(f"{prime}**{count}" if count > 1 else str(prime) for prime, count in primes.items())
        return f"-{product}" if expression < 0 else product
    return sympy.factor(expression)


def _series(arguments: Arguments) -> Symbolic:
    expression = _formula(arguments[0], "series")
    variable = _variable(arguments[1], "series") if len(arguments) > 1 else _only_variable(expression, "series")
    point = _formula(arguments[2], "series") if len(arguments) > 2 else sympy.Integer(0)
    count = _whole(arguments[3], "series", MAX_SERIES_TERMS) if len(arguments) > 3 else 6
    return sympy.series(expression, variable, point, count)


def _summation(arguments: Arguments) -> Symbolic:
    bounds = arguments[1] if len(arguments) == 2 and isinstance(arguments[1], list) else arguments[1:]
    if len(bounds) != 3:
        raise CalculatorError("求和写作 summation(算式, k, 1, n)", "sums are written summation(formula, k, 1, n)")
    variable = _variable(bounds[0], "summation")
    return sympy.summation(_formula(arguments[0], "summation"), (variable, bounds[1], bounds[2]))


def _subs(arguments: Arguments) -> Symbolic:
    return _formula(arguments[0], "subs").subs(_variable(arguments[1], "subs"), _formula(arguments[2], "subs"))


def _matrix(value: Symbolic, name: str) -> Symbolic:
    if isinstance(value, sympy.MatrixBase):
        return value
    rows = value if isinstance(value, list) else []
    widths = {len(row) if isinstance(row, list) else 0 for row in rows}
    if len(widths) != 1 or not 0 < max(widths) <= MAX_MATRIX_SIDE or len(rows) > MAX_MATRIX_SIDE:
        raise CalculatorError(
            f"{name} 需要矩阵，例如 [[1,2],[3,4]]，最大 {MAX_MATRIX_SIDE}x{MAX_MATRIX_SIDE}",
            f"{name} needs a matrix such as [[1,2],[3,4]] of at most {MAX_MATRIX_SIDE}x{MAX_MATRIX_SIDE}",
        )
    return sympy.Matrix([[_formula(item, name) for item in row] for row in rows])


def _square(value: Symbolic, name: str) -> Symbolic:
    matrix = _matrix(value, name)
    if matrix.rows != matrix.cols:
        raise CalculatorError(f"{name} 需要方阵", f"{name} needs a square matrix")
    return matrix


def _inverse(arguments: Arguments) -> Symbolic:
    matrix = _square(arguments[0], "inv")
    if matrix.det() == 0:
        raise CalculatorError("矩阵不可逆（行列式为 0）", "the matrix has no inverse: its determinant is 0")
    return matrix.inv()


def _eigenvalues(arguments: Arguments) -> Symbolic:
    return [value for value, count in _square(arguments[0], "eigenvals").eigenvals().items() for _ in range(count)]


def _of_formula(name: str, apply: Callable[[Symbolic], Symbolic]) -> Operation:
    return Operation(1, 1, lambda arguments: apply(_formula(arguments[0], name)))


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "diff": Operation(1, MAX_DERIVATIVES, _diff),
        "integrate": Operation(1, 4, _integrate),
        "limit": Operation(2, 4, _limit),
        "solve": Operation(1, MAX_LIST_ITEMS, _solve),
        "nsolve": Operation(2, 3, _solve_near),
        "simplify": _of_formula("simplify", sympy.simplify),
        "expand": _of_formula("expand", sympy.expand),
        "factor": Operation(1, 1, _factor),
        "apart": _of_formula("apart", sympy.apart),
        "together": _of_formula("together", sympy.together),
        "cancel": _of_formula("cancel", sympy.cancel),
        "series": Operation(1, 4, _series),
        "summation": Operation(2, 4, _summation),
        "subs": Operation(3, 3, _subs),
        "det": Operation(1, 1, lambda arguments: _square(arguments[0], "det").det()),
        "inv": Operation(1, 1, _inverse),
        "transpose": Operation(1, 1, lambda arguments: _matrix(arguments[0], "transpose").T),
        "rank": Operation(1, 1, lambda arguments: sympy.Integer(_matrix(arguments[0], "rank").rank())),
        "eigenvals": Operation(1, 1, _eigenvalues),
    }
)
