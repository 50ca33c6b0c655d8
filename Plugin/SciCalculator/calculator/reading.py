"""From text to a checked syntax tree. Characters, tokens and tree nodes that are not listed here are refused."""

from __future__ import annotations

import ast
import re

from .failure import CalculatorError
from .limits import MAX_DEPTH, MAX_EXPRESSION_CHARS, MAX_NODES, check_items

# Full-width forms of ASCII stand at a fixed distance; the rest are signs that people and models write in formulas.
_SIGNS = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {
    ord(sign): plain
    for signs, plain in (
        ("×·⋅∙✕✖", "*"),
        ("÷∕⁄", "/"),
        ("−–—", "-"),
        ("、", ","),
        ("【〔", "["),
        ("】〕", "]"),
        ('‘’“”"`', "'"),
        ("π𝜋", "pi"),
        ("τ", "tau"),
        ("∞", "oo"),
        ("²", "**2"),
        ("³", "**3"),
        ("≤", "<="),
        ("≥", ">="),
        ("≠", "!="),
        ("\u200b\u200c\u200d\u2060\ufeff", ""),
    )
    for sign in signs
}
_SIGNS[ord("＂")] = _SIGNS[ord("｀")] = "'"

_ROOT = re.compile(r"√\s*([0-9]+(?:\.[0-9]+)?|[A-Za-z][A-Za-z0-9]*(?![A-Za-z0-9(]))")
_SIDES = re.compile(r"'\s*([+-])\s*'")

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>0[xX][0-9a-fA-F]+ | 0[bB][01]+ | 0[oO][0-7]+
        | (?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)? | \.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>\*\*|//|==|<=|>=|!+(?!=)|!=|[-+*/%^()\[\],<>=°'])
    | (?P<other>\S)
    )""",
    re.VERBOSE,
)

_LEADING_ZEROS = re.compile(r"^0+(?=[0-9])")
_AFTER_PER_CENT = frozenset({")", "]", ",", "*", "/", "^", "**", "=", "==", "'", "<", ">", "<=", ">=", "!="})

_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Compare,
    ast.Load,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.UAdd,
    ast.USub,
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
)


def read(text: str) -> ast.expr:
    """The tree of an expression, made of numbers, names, calls by name, lists, arithmetic and comparisons only."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise CalculatorError(
            f"表达式有 {len(text)} 个字符，上限是 {MAX_EXPRESSION_CHARS}，请分成几步计算",
            f"the expression has {len(text)} characters, the limit is {MAX_EXPRESSION_CHARS}: calculate in steps",
        )
    source = _Source(text).translate()
    try:
        tree = ast.parse(source, mode="eval")
    except SyntaxError as error:
        raise CalculatorError(
            f"表达式写法有误：{error.msg}（读作 {_shorten(source)}）",
            f"the expression cannot be read: {error.msg} (read as {_shorten(source)})",
        ) from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise _too_deep() from error
    _check(tree)
    return tree.body


def operands(node: ast.BinOp) -> tuple[ast.expr, list[ast.BinOp]]:
    """The innermost left operand of ``a + b + c …`` and the operations on it, first one first.

    A long sum is a tree that leans to the left; walking down it by recursion would run out of stack.
    """
    steps: list[ast.BinOp] = []
    inner: ast.expr = node
    while isinstance(inner, ast.BinOp):
        steps.append(inner)
        inner = inner.left
    steps.reverse()
    return inner, steps


class _Source:
    """Turns mathematical notation into the part of Python's grammar that the calculator reads."""

    def __init__(self, text: str) -> None:
        text = text.translate(_SIGNS).strip().rstrip("=? \t\r\n")
        text = _SIDES.sub(lambda side: " right" if side[1] == "+" else " left", text)
        text = _ROOT.sub(r"sqrt(\1)", text).replace("√", "sqrt")
        if not text:
            raise CalculatorError("表达式为空，请填写 expression", "the expression is empty: fill in expression")
        self._tokens = [(str(match.lastgroup), str(match[str(match.lastgroup)]), match[0]) for match in _lex(text)]
        self._out: list[str] = []
        self._open: list[tuple[str, int]] = []
        self._ended = ""  # what kind of operand has just ended: number, name, close; empty after an operator
        self._operand = 0  # where that operand begins in the output

    def translate(self) -> str:
        """The Python source of the expression."""
        for index, (kind, token, written) in enumerate(self._tokens):
            following = self._tokens[index + 1][1] if index + 1 < len(self._tokens) else ""
            if kind == "number":
                self._number(token)
            elif kind == "name":
                self._name(token, glued=written == token)
            elif kind == "sign":
                self._sign(token, following)
            else:
                raise CalculatorError(
                    f"不支持字符 {token!r}（U+{ord(token):04X}）；只能写数字、变量、函数、括号、列表和运算符",
                    f"the character {token!r} (U+{ord(token):04X}) is not supported: "
                    "write numbers, variables, functions, brackets, lists and operators only",
                )
        if self._open:
            raise _unbalanced(self._open[-1][0])
        return "".join(self._out).strip()

    def _number(self, token: str) -> None:
        if self._ended == "close":
            self._out.append("*")
        self._put(_LEADING_ZEROS.sub("", token), "number")  # Python refuses 007

    def _name(self, token: str, *, glued: bool) -> None:
        if self._ended in ("number", "close"):
            self._out.append("*")
            if glued and token == "j" and self._ended == "number":
                token = "i"
        self._put(token, "name")

    def _put(self, token: str, kind: str) -> None:
        self._ended, self._operand = kind, len(self._out)
        self._out.append(f" {token}")

    def _sign(self, token: str, following: str) -> None:
        if token == "'":
            # A quoted part is an expression too: integral('x**2', 0, 1) is how some prompts teach it.
            if any(bracket == "'" for bracket, _ in self._open):
                self._close("'", ")")
            else:
                self._begin("'", "(")
        elif token in ("(", "["):
            self._begin(token, token)
        elif token in (")", "]"):
            self._close("(" if token == ")" else "[", token)
        elif self._ended and token[0] == "!" and token != "!=":
            self._factorial(len(token))
        elif self._ended and token == "°":
            self._wrap("(", "*pi/180)")
        elif self._ended and token == "%" and (following == "" or following in _AFTER_PER_CENT):
            self._wrap("(", "/100)")
        elif token == "%" and following in ("+", "-"):
            raise CalculatorError(
                "% 后面紧跟正负号，分不清是百分号还是取余：百分数请写 (50/100)，取余请写 7 % (-3)",
                "% before a sign is ambiguous: write (50/100) for per cent, 7 % (-3) for the remainder",
            )
        else:
            self._out.append({"^": "**", "=": "=="}.get(token, token))
            self._ended = ""

    def _begin(self, bracket: str, written: str) -> None:
        start = len(self._out)
        if written == "(" and self._ended == "name":
            start = self._operand  # a call begins at its name
        elif written == "(" and self._ended:
            self._out.append("*")
            start += 1
        if len(self._open) >= MAX_DEPTH:
            raise _too_deep()
        self._open.append((bracket, start))
        self._out.append(written)
        self._ended = ""

    def _close(self, bracket: str, written: str) -> None:
        if not self._open or self._open[-1][0] != bracket:
            raise _unbalanced("'" if bracket == "'" else written)
        self._operand = self._open.pop()[1]
        self._ended = "close"
        self._out.append(written)

    def _factorial(self, marks: int) -> None:
        """``5!`` is a factorial, ``5!!`` the double factorial; more marks in a row mean nothing."""
        if marks > 2:
            raise CalculatorError("连续的 ! 最多两个，请用括号写明，例如 (5!)!", "at most two ! in a row: write (5!)!")
        self._wrap("factorial(" if marks == 1 else "factorial2(", ")")

    def _wrap(self, before: str, after: str) -> None:
        self._out[self._operand] = before + self._out[self._operand]
        self._out.append(after)
        self._ended = "close"


def _lex(text: str) -> list[re.Match[str]]:
    return [match for match in _TOKEN.finditer(text) if match.lastgroup]


def _check(tree: ast.Expression) -> None:
    """Refuse every node that is not listed, and trees that are too large or too deep."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    count = 0
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if count > MAX_NODES:
            raise CalculatorError(
                f"表达式超过 {MAX_NODES} 个部分，请分成几步计算",
                f"the expression has over {MAX_NODES} parts: calculate in steps",
            )
        if depth > MAX_DEPTH:
            raise _too_deep()
        _check_node(node)
        for child in ast.iter_child_nodes(node):
            deeper = 0 if isinstance(node, ast.BinOp) and child is node.left else 1
            waiting.append((child, depth + deeper))


def _check_node(node: ast.AST) -> None:
    if not isinstance(node, _NODES):
        kind = type(node).__name__
        raise CalculatorError(
            f"不支持这种写法（{kind}）；只能写算式、函数调用、列表和比较",
            f"this notation is not supported ({kind}): write arithmetic, function calls, lists and comparisons only",
        )
    if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
        raise CalculatorError(f"{node.value!r} 不是数", f"{node.value!r} is not a number")
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name):
            raise CalculatorError(
                "只能按名字调用函数；乘法请写 *", "functions are called by their name only; write * for a product"
            )
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise CalculatorError("函数参数只能按位置写", "arguments are given by position only")
        check_items(len(node.args))
    if isinstance(node, ast.List | ast.Tuple):
        check_items(len(node.elts))


def _too_deep() -> CalculatorError:
    return CalculatorError(
        f"括号或运算嵌套超过 {MAX_DEPTH} 层，请分成几步计算", f"nested more than {MAX_DEPTH} deep: calculate in steps"
    )


def _unbalanced(bracket: str) -> CalculatorError:
    return CalculatorError(f"{bracket!r} 没有配对", f"{bracket!r} has no partner")


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 120 else text[:117] + "..."
