"""What the calculator refuses: undefined values, code, excess (design.md trap 7)."""

from __future__ import annotations

import pytest

from Plugin.SciCalculator.calculator.evaluation import calculate
from Plugin.SciCalculator.calculator.failure import CalculatorError
from Plugin.SciCalculator.calculator.limits import MAX_DEPTH


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("", "expression"),
        ("   ", "expression"),
        ("1/0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0**-1", "division by zero"),
        ("0.0**-1", "division by zero"),
        ("tan(pi/2)", "division by zero"),
        ("1e308*10", "1.8e308"),
        ("1e400", "1.8e308"),
        ("exp(1000)", "1.8e308"),
        ("10**400 + 0.5", "1.8e308"),
        ("nan", "'nan'"),
        ("asin(2)", "domain of asin"),
        ("log(0)", "domain of log"),
        ("gamma(-1)", "domain of gamma"),
        ("factorial(-1)", "factorial"),
        ("factorial(2.5)", "factorial"),
        ("sqrt()", "sqrt takes 1"),
        ("sqrt(1, 2)", "sqrt takes 1"),
        ("mean([])", "mean needs at least 1"),
        ("stdev([1])", "stdev needs at least 2"),
        ("mean([[1]])", "mean"),
        ("correlation([1,2],[1,2,3])", "differ in length"),
        ("correlation([1,1],[1,2])", "no correlation"),
        ("linreg([1,1],[1,2])", "no variation"),
        ("linreg(1, 2)", "two lists"),
        ("min([1, i])", "real number"),
        ("i < 1", "real number"),
        ("7 % i", "real number"),
        ("[1] + 2", "not a list"),
        ("(1 < 2) + 1", "not a list or a comparison"),
        ("sqr(2)", "perhaps sqrt"),
        ("foobarbaz(2)", "no function 'foobarbaz'"),
        ("apples * 3", "'apples'"),
        ("1,234", "commas"),
        ("2 3", "cannot be read"),
        ("1 +", "cannot be read"),
        ("(1", "'('"),
        ("1)", "')'"),
        ("(1]", "']'"),
        ("'1", '"\'"'),
        ("5!!!", "two !"),
        ("7%-3", "ambiguous"),
        ("50%+1", "ambiguous"),
        ("x[0]", "Subscript"),
        ("[1,2][0]", "Subscript"),
        ("sqrt(1<2)", "not a list or a comparison"),
        ("1 if 2 else 3", "cannot be read"),
        ("not 1", "(Not)"),
        ("1 and 2", "cannot be read"),
        ("True", "True"),
        ("None", "None"),
        ("~1", "'~'"),
        ("1 & 2", "'&'"),
        ("1 << 2", "LShift"),
        ("{1: 2}", "'{'"),
        ("1;2", "';'"),
        ("价格*2", "U+4EF7"),
        ("\x00", "U+0000"),
        ("1\x001", "U+0000"),
        ("①", "U+2460"),
        ("٣", "U+0663"),
        ("\ud800", "U+D800"),
    ],
)
def test_an_expression_without_a_value_is_a_clear_error(expression: str, named: str) -> None:
    with pytest.raises(CalculatorError) as raised:
        calculate(expression)
    assert named in str(raised.value)
    assert " / " in str(raised.value)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "__import__('os').system('true')",
        "().__class__.__bases__[0].__subclasses__()",
        "(1).real",
        "pi.__class__",
        "lambda: 1",
        "(lambda: 1)()",
        "[x for x in [1]]",
        "f'{1}'",
        "(x := 1)",
        "eval('1')",
        "exec('1')",
        "open('/etc/passwd')",
        "getattr(1, 'real')",
        "print(1)",
        "sqrt.__globals__",
        "__builtins__",
        "globals()",
        "yield 1",
        "await 1",
        "import os",
        "1\nimport os",
        "# comment",
        "'%s' % 1",
        "b'x'",
        "...",
        "sqrt(*[1])",
        "max(**{})",
        "ｅｖａｌ('1')",
        "𝐞𝐯𝐚𝐥(1)",
        "[1][0]()",
        "(sqrt)(2)(3)(4)",
        "1@2",
        "$x",
        "\\x41",
    ],
)
def test_code_is_refused(expression: str) -> None:
    with pytest.raises(CalculatorError):
        calculate(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9",
        "9^9^9^9",
        "2**(10**10)",
        "(1/3)**(10**9)",
        "(2/3)**-(10**9)",
        "pow(9, 9**9)",
        "10**9!",
        "99999!!",
        "4000!",
        "(10**100)!",
        "factorial(1e300)",
        "comb(10**6, 10**5)",
        "perm(10**5)",
        "(10**9000)*(10**9000)",
        "prod([10**5000, 10**5001])",
        "lcm(10**9000 + 1, 10**9000 + 3)",
    ],
)
def test_a_number_that_is_too_large_is_refused_before_it_is_made(expression: str) -> None:
    with pytest.raises(CalculatorError, match="too large"):
        calculate(expression)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("1" * 10_001, "10001 characters"),
        ("(" * 100_000, "characters"),
        ("(" * 4_999 + "1" + ")" * 4_999, "deep"),
        ("[" * 5_000, "deep"),
        ("'(" * 2_000, "partner"),
        ("-" * 5_000 + "1", "deep"),
        ("2**" * 3_000 + "2", "deep"),
        ("sqrt(" * 1_500 + "1" + ")" * 1_500, "deep"),
        ("[" + "1," * 4_990 + "1]" + "+1" * 5, "not a list"),
        ("[" + "1," * 4_999 + "1]", "characters"),
        ("round(1, 99999)", "round"),
        ("quantiles([1,2], 99999)", "quantiles"),
    ],
)
def test_size_has_limits(expression: str, named: str) -> None:
    with pytest.raises(CalculatorError) as raised:
        calculate(expression)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [("max(" + "1," * 4_000 + "7)", "7"), ("1<" * 1_500 + "1", "False"), ("sum(" + "0.1," * 1_999 + "0.1)", "200")],
)
def test_a_long_expression_within_the_limits_has_its_value(expression: str, value: str) -> None:
    assert calculate(expression) == value


def test_a_nesting_at_the_limit_still_works() -> None:
    assert calculate("(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1)) == "1"


def test_a_long_sum_is_not_a_deep_one() -> None:
    assert calculate("+".join(["1"] * 300)) == "300"


def test_the_largest_power_is_exact() -> None:
    assert len(calculate("10**4000")) == 4001
