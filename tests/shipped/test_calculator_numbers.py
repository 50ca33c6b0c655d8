"""The calculator on numbers, inside one process (design.md trap 7)."""

from __future__ import annotations

import ast
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Plugin.SciCalculator.calculator import reading
from Plugin.SciCalculator.calculator.evaluation import calculate
from Plugin.SciCalculator.calculator.failure import CalculatorError
from Plugin.SciCalculator.calculator.functions import ALIASES, FUNCTIONS


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1+1", "2"),
        ("2 - 3", "-1"),
        ("6*7", "42"),
        ("7/2", "3.5"),
        ("1/3", "1/3 ≈ 0.333333333333333"),
        ("1/1024", "0.0009765625"),
        ("1/10**40", "1e-40"),
        ("(1/3)**1000", "≈ 7.56389132310408e-478"),
        ("7//2", "3"),
        ("-7//2", "-4"),
        ("7 % 3", "1"),
        ("2**10", "1024"),
        ("2^10", "1024"),
        ("2^3^2", "512"),
        ("-2^2", "-4"),
        ("2^-2", "0.25"),
        ("(2/3)^2", "4/9 ≈ 0.444444444444444"),
        ("+5", "5"),
        ("--5", "5"),
        ("2^100", "1267650600228229401496703205376"),
        ("123456789*987654321", "121932631112635269"),
        ("0.1+0.2", "0.3"),
        ("0.1*3", "0.3"),
        ("1e3", "1000"),
        ("1e20", "1e+20"),
        ("1.5e-7", "1.5e-07"),
        ("007", "7"),
        ("1_000", "1000"),
        ("0x1F", "31"),
        ("0b101", "5"),
        (".5 + 1.", "1.5"),
        ("1**10**1000", "1"),
        ("(-1)**(10**50+1)", "-1"),
        ("0**0", "1"),
        ("8^(1/3)", "2"),
        ("4**0.5", "2"),
        ("(4/9)^(1/2)", "2/3 ≈ 0.666666666666667"),
        # comparisons
        ("1 < 2 <= 2", "True"),
        ("2 >= 3", "False"),
        ("0.1+0.2 == 0.3", "True"),
        ("1+1 = 2", "True"),
        ("1 != 2", "True"),
        ("10**400 > 1e300", "True"),
        # notation
        ("５＋３×（４－１）÷２", "9.5"),
        ("２＾３", "8"),
        ("−3·2", "-6"),
        ("2(3+4)", "14"),
        ("(1+2)(3+4)", "21"),
        ("2pi", "6.28318530717959"),
        ("2²+2³", "12"),
        ("√16 + √(9)", "7"),
        ("50%", "0.5"),
        ("200*50%", "100"),
        ("5!", "120"),
        ("2^3!", "64"),
        ("(2+1)!", "6"),
        ("-3!", "-6"),
        ("7!!", "105"),
        ("1+1=", "2"),
        ("1+1=?", "2"),
        (" 1 +\r\n 1\t", "2"),
        ("'2+2'", "4"),
        ("[1,2.5,1/2]", "[1, 2.5, 0.5]"),
        # constants and functions
        ("pi", "3.14159265358979"),
        ("π", "3.14159265358979"),
        ("e", "2.71828182845905"),
        ("tau/2", "3.14159265358979"),
        ("sqrt(16)", "4"),
        ("sqrt(1/4)", "0.5"),
        ("sqrt(2)^2", "2"),
        ("sqrt(10^400)/10^199", "10"),
        ("sin(pi)", "0"),
        ("cos(pi/2)", "0"),
        ("tan(pi/4)", "1"),
        ("sin(30°)", "0.5"),
        ("sin(1e-20)", "1e-20"),
        ("asin(1)*2", "3.14159265358979"),
        ("atan2(1, 1)*4", "3.14159265358979"),
        ("sinh(0)", "0"),
        ("exp(0)", "1"),
        ("ln(e)", "1"),
        ("log(1000, 10)", "3"),
        ("log(8, 2)", "3"),
        ("log10(10^500)", "500"),
        ("lg(0.001)", "-3"),
        ("log2(1024)", "10"),
        ("cbrt(-27)", "-3"),
        ("root(-8, 3)", "-2"),
        ("abs(-7/2)", "3.5"),
        ("floor(-2.5)", "-3"),
        ("ceil(2.1)", "3"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(2.675, 2)", "2.68"),
        ("round(1234, -2)", "1200"),
        ("degrees(pi)", "180"),
        ("radians(180)", "3.14159265358979"),
        ("gcd(12, 18, 27)", "3"),
        ("lcm(4, 6)", "12"),
        ("comb(10, 3)", "120"),
        ("comb(3, 10)", "0"),
        ("perm(5, 2)", "20"),
        ("factorial(20)", "2432902008176640000"),
        ("gamma(5)", "24"),
        ("isprime(2^31-1)", "True"),
        ("isprime(561)", "False"),
        ("hypot(3, 4)", "5"),
        ("mod(-1, 3)", "2"),
        ("min(3, 1, 2)", "1"),
        ("max([3, 5/2])", "3"),
        ("sum([0.1, 0.2, 0.3])", "0.6"),
        ("prod([1, 2, 3])", "6"),
        # statistics
        ("mean([1, 2, 3, 4])", "2.5"),
        ("average(1, 2)", "1.5"),
        ("median([3, 1, 2])", "2"),
        ("median([1, 2])", "1.5"),
        ("mode([1, 1, 2])", "1"),
        ("mode([1, 1, 2, 2])", "[1, 2]"),
        ("pstdev([2,4,4,4,5,5,7,9])", "2"),
        ("stdev([2,4,4,4,5,5,7,9])", "2.1380899352994"),
        ("variance([1,2,3,4])", "5/3 ≈ 1.66666666666667"),
        ("pvariance([1,2,3,4])", "1.25"),
        ("quantiles([1,2,3,4,5,6,7,8,9])", "[2.5, 5, 7.5]"),
        ("quantiles([1,2], 4)", "[0.75, 1.5, 2.25]"),
        ("correlation([1,2,3],[2,4,6])", "1"),
        ("covariance([1,2,3],[2,4,6])", "2"),
        ("linreg([1,2,3],[3,5,7])", "[2, 1]"),
        # complex numbers
        ("i^2", "-1"),
        ("sqrt(-4)", "2*i"),
        ("(1+2i)*(3-i)", "5 + 5*i"),
        ("(1+i)*(1-i)", "2"),
        ("2j", "2*i"),
        ("1/i", "-i"),
        ("e^(i*pi)", "-1"),
        ("abs(3+4i)", "5"),
        ("log(-1)", "3.14159265358979*i"),
        ("re(2+3i) + im(2+3i)", "5"),
    ],
)
def test_an_expression_has_its_value(expression: str, value: str) -> None:
    assert calculate(expression) == value


def test_names_of_functions_and_aliases_do_not_hide_each_other() -> None:
    assert all(FUNCTIONS[alias] is FUNCTIONS[name] for alias, name in ALIASES.items())


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(ALIASES)))
def test_every_function_gives_a_value_or_a_clear_error(name: str) -> None:
    for arguments in ("", "1", "[1]", "1, 1", "i", "[]", "-1", "0.5, [2]", "1<2", "1e308", "10**400"):
        try:
            assert "\n" not in calculate(f"{name}({arguments})")
        except CalculatorError as error:
            assert " / " in str(error)


# --- properties ------------------------------------------------------------------------------------------------------

whole_numbers = st.integers(-(10**6), 10**6)


@given(whole_numbers, whole_numbers)
def test_whole_numbers_are_exact(a: int, b: int) -> None:
    assert calculate(f"({a})+({b})*({a})-({b})") == str(a + b * a - b)


@given(whole_numbers, st.integers(1, 10**6))
def test_a_quotient_can_be_read_back(a: int, b: int) -> None:
    shown = calculate(f"({a})/{b}").split(" ≈ ")
    assert math.isclose(float(shown[-1]), a / b, rel_tol=1e-14)
    if len(shown) == 2:
        assert Fraction(shown[0]) == Fraction(a, b)


@given(st.floats(-1e307, 1e307))
def test_a_decimal_comes_back_with_fifteen_digits(value: float) -> None:
    assert math.isclose(float(calculate(repr(value))), value, rel_tol=1e-14, abs_tol=5e-324)


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("0123456789.+-*/%^()[],!<>=' eipx√²°，（）_\nab"), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        tree = reading.read(text)
    except CalculatorError:
        return
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Subscript | ast.Lambda)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("e0<i", "complex numbers have no order"),
        ("x<i!", "a factorial needs a real number"),
        ("70^338!^6", "too large"),
        ("round(series(comb(max(i))))", "cannot be computed"),
    ],
)
def test_what_has_no_value_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(CalculatorError, match=reason):
        calculate(text)


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("0123456789.+-*/%^()[],!<>= ei"), max_size=20))
def test_arithmetic_gives_one_line_or_a_clear_error(text: str) -> None:
    try:
        assert "\n" not in calculate(text)
    except CalculatorError as error:
        assert " / " in str(error)
