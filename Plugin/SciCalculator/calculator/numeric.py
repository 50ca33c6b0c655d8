"""Walks a checked tree with numbers alone; sympy is not needed here and not loaded."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from types import MappingProxyType

from .arithmetic import Value, compare, number, operate, out_of_range, settle
from .failure import CalculatorError
from .functions import call
from .reading import operands

CONSTANTS: Mapping[str, int | float | complex] = MappingProxyType(
    {"pi": math.pi, "e": math.e, "E": math.e, "tau": math.tau, "i": 1j, "I": 1j}
)


def evaluate(node: ast.expr) -> Value:
    """The value of a tree without variables. Names and functions were checked before."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        if node.value == math.inf:
            raise out_of_range()
        return settle(node.value)
    if isinstance(node, ast.Name):
        return CONSTANTS[node.id]
    if isinstance(node, ast.BinOp):
        inner, steps = operands(node)
        value = evaluate(inner)
        for step in steps:
            value = operate(step.op, number(value, "+ - * / **"), number(evaluate(step.right), "+ - * / **"))
        return value
    if isinstance(node, ast.UnaryOp):
        value = number(evaluate(node.operand), "+ -")
        return settle(-value) if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return call(node.func.id, [evaluate(argument) for argument in node.args])
    if isinstance(node, ast.List | ast.Tuple):
        return [evaluate(item) for item in node.elts]
    if isinstance(node, ast.Compare):
        values = [number(evaluate(item), "< = >") for item in (node.left, *node.comparators)]
        return all(compare(op, a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False))
    raise CalculatorError("不支持这种写法", "this notation is not supported")
