"""From the text of an expression to the text of its value."""

from __future__ import annotations

import ast
import re

from . import numeric
from .failure import CalculatorError
from .functions import ALIASES, FUNCTIONS
from .limits import MAX_RESULT_CHARS
from .reading import read
from .rendering import render

SYMBOLIC = frozenset(
    {
        "diff", "derivative", "integrate", "integral", "limit", "solve", "nsolve", "simplify", "expand", "factor",
        "apart", "together", "cancel", "series", "summation", "subs", "det", "inv", "transpose", "rank", "eigenvals",
    }
)  # fmt: skip
"""Functions that work on formulas; only these and free variables need sympy."""

_SYMBOLIC_CONSTANTS = frozenset({"oo", "inf", "infinity", "left", "right"})
_VARIABLE = re.compile(
    r"(?:[A-Za-z]|alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda_|mu|nu|xi|rho|sigma|upsilon|phi|chi|psi"
    r"|omega)(?:_?[0-9]{1,3})?"
)


def calculate(text: str) -> str:
    """The value of an expression as one line of text.

    Raises CalculatorError, RecursionError and MemoryError, and nothing else.
    """
    try:
        return _value(text)
    except (CalculatorError, RecursionError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise CalculatorError(
            f"无法计算（{reason}），请换一种写法", f"cannot be computed ({reason}): write it another way"
        ) from error


def _value(text: str) -> str:
    tree = read(text)
    if _needs_symbols(tree):
        # Importing sympy takes about eighty times as long as starting Python: only who needs it pays.
        from .symbolic import calculate as calculate_symbolic

        result = calculate_symbolic(tree)
    else:
        if isinstance(tree, ast.Tuple):
            raise CalculatorError(
                "逗号只用来分隔参数；千位分隔符请去掉，列表请写 [1, 2]",
                "commas separate arguments: write numbers without them, and lists as [1, 2]",
            )
        result = render(numeric.evaluate(tree))
    if len(result) > MAX_RESULT_CHARS:
        raise CalculatorError(
            f"结果有 {len(result)} 个字符，上限是 {MAX_RESULT_CHARS}",
            f"the result has {len(result)} characters, the limit is {MAX_RESULT_CHARS}",
        )
    return result


def _needs_symbols(tree: ast.expr) -> bool:
    """True when a formula function or a variable occurs. Unknown names are errors here, before anything is computed."""
    called: set[int] = set()
    needed = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(id(node.func))
            name = node.func.id
            if name in SYMBOLIC:
                needed = True
            elif name not in FUNCTIONS:
                raise _unknown_function(name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in called and node.id not in numeric.CONSTANTS:
            if node.id not in _SYMBOLIC_CONSTANTS and not _VARIABLE.fullmatch(node.id):
                raise CalculatorError(
                    f"不认识的名字 {node.id!r}；变量用单个字母（可带数字，如 x1），乘法请写 *",
                    f"unknown name {node.id!r}: variables are single letters (x, x1), products are written with *",
                )
            needed = True
    return needed


def _unknown_function(name: str) -> CalculatorError:
    import difflib

    close = difflib.get_close_matches(name[:40], [*FUNCTIONS, *SYMBOLIC, *ALIASES], n=1)
    chinese, english = (
        (f"，是否要用 {close[0]}", f", perhaps {close[0]}") if close else ("；乘法请写 *", "; write * for products")
    )
    return CalculatorError(f"没有函数 {name!r}{chinese}", f"there is no function {name!r}{english}")
