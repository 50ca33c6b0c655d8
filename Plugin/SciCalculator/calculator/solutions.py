"""Equations and inequalities, and what their solutions are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import sympy

from .failure import CalculatorError

MAX_EQUATIONS = 20
_NUMERIC_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Solutions:
    """Every solution as (variable, value) pairs; ``condition`` holds the answer to an inequality instead."""

    rows: tuple[tuple[tuple[Any, Any], ...], ...] = ()
    condition: Any = None


def solve(equations: Any, variables: Sequence[Any] = ()) -> Solutions:
    """Solve one or several equations or expressions (= 0) for the variables, or for all that occur."""
    system = list(equations) if isinstance(equations, list) else [equations]
    if not 0 < len(system) <= MAX_EQUATIONS:
        raise CalculatorError(f"方程数量应为 1..{MAX_EQUATIONS}", f"give 1..{MAX_EQUATIONS} equations")
    if any(equation == sympy.false for equation in system):
        return Solutions()
    system = [equation for equation in system if equation != sympy.true]
    free = sorted(set().union(*(equation.free_symbols for equation in system)), key=lambda symbol: str(symbol.name))
    wanted = list(variables) or free
    if not wanted:
        raise CalculatorError("方程里没有未知数", "the equation has no unknown")
    if any(
        isinstance(equation, sympy.core.relational.Relational) and not isinstance(equation, sympy.Eq)
        for equation in system
    ):
        return _solve_inequality(system, wanted)
    rows = _rows(system, wanted)
    if not system or (not rows and all(sympy.simplify(_difference(equation)) == 0 for equation in system)):
        raise CalculatorError("这是恒等式，任何值都是解", "this holds for every value")
    return Solutions(tuple(tuple(sorted(row.items(), key=lambda pair: str(pair[0].name))) for row in rows))


def _rows(system: list[Any], wanted: list[Any]) -> list[dict[Any, Any]]:
    # NotImplementedError is sympy's own word for equations that it cannot solve.
    # A list of one goes another way through sympy, which takes roots without a formula for no roots.
    task = system[0] if len(system) == 1 else system
    try:
        return list(sympy.solve(task, wanted, dict=True))
    except NotImplementedError:
        pass  # over the real numbers there is more that can be solved, |x| = 2 for one
    real = {symbol: sympy.Symbol(symbol.name, real=True) for symbol in set().union(*(e.free_symbols for e in system))}
    back = {known: symbol for symbol, known in real.items()}
    task = [equation.xreplace(real) for equation in system]
    try:
        rows = sympy.solve(
            task[0] if len(task) == 1 else task, [real.get(symbol, symbol) for symbol in wanted], dict=True
        )
    except NotImplementedError as error:
        raise CalculatorError(
            "这个方程没有已知的解析解法，请用 nsolve(方程, 变量, 初值) 求数值解",
            "no closed solution is known: use nsolve(equation, variable, start) for a numeric one",
        ) from error
    return [{back.get(name, name): value.xreplace(back) for name, value in row.items()} for row in rows]


def _difference(equation: Any) -> Any:
    return equation.lhs - equation.rhs if isinstance(equation, sympy.Eq) else equation


def _solve_inequality(system: list[Any], wanted: list[Any]) -> Solutions:
    if len(wanted) != 1:
        raise CalculatorError("不等式只能含一个未知数", "an inequality is solved for one unknown only")
    try:
        return Solutions(condition=sympy.reduce_inequalities(system, wanted[0]))
    except NotImplementedError as error:
        raise CalculatorError("这个不等式没有已知的解法", "no way to solve this inequality is known") from error


def solve_near(equation: Any, variable: Any, start: Any) -> Solutions:
    """The solution near a starting value, to 15 digits."""
    expression = _difference(equation)
    if not isinstance(expression, sympy.Expr) or expression.free_symbols - {variable}:
        raise CalculatorError(
            "nsolve 需要只含一个未知数的方程，例如 nsolve(cos(x)=x, x, 1)",
            "nsolve takes an equation in one unknown, e.g. nsolve(cos(x)=x, x, 1)",
        )

    # sympy's own nsolve would turn the formula into Python source and run it.
    def height(place: Any) -> Any:
        value = expression.subs(variable, _from_mpmath(place)).evalf(_NUMERIC_DIGITS)
        return value._to_mpmath(mpmath.mp.prec)

    try:
        with mpmath.workdps(_NUMERIC_DIGITS):
            value = mpmath.findroot(height, start.evalf(_NUMERIC_DIGITS)._to_mpmath(mpmath.mp.prec))
    except (ValueError, ZeroDivisionError) as error:
        raise CalculatorError(
            "从这个初值没有找到数值解，请换一个初值", "no solution was found from this start: try another one"
        ) from error
    return Solutions((((variable, _from_mpmath(value)),),))


def _from_mpmath(value: Any) -> Any:
    if isinstance(value, mpmath.mpc):
        return sympy.Float(value.real, _NUMERIC_DIGITS) + sympy.I * sympy.Float(value.imag, _NUMERIC_DIGITS)
    return sympy.Float(value, _NUMERIC_DIGITS)
