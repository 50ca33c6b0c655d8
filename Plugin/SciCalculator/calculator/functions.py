"""The functions on numbers, by name: how many arguments each takes, and what it does."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from . import counting, samples
from .arithmetic import (
    Number,
    Value,
    as_complex,
    as_float,
    decimal_fraction,
    division_by_zero,
    number,
    out_of_range,
    power,
    real,
    root,
    settle,
    whole,
)
from .failure import CalculatorError
from .limits import MAX_DIGITS, MAX_LIST_ITEMS

Arguments = list[Value]


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its least and greatest number of arguments, and its code."""

    least: int
    most: int
    apply: Callable[[Arguments], Value]


def call(name: str, arguments: Arguments) -> Value:
    """The value of a function by name; every way to have no value is an error for people."""
    function = FUNCTIONS[name]
    check_count(name, len(arguments), function.least, function.most)
    try:
        result = function.apply(arguments)
    except ZeroDivisionError as error:
        raise division_by_zero() from error
    except OverflowError as error:
        raise out_of_range() from error
    except ValueError as error:
        raise CalculatorError(f"参数超出 {name} 的定义域", f"the argument lies outside the domain of {name}") from error
    return result if isinstance(result, bool | list) else settle(result)


def check_count(name: str, count: int, least: int, most: int) -> None:
    """Refuse a wrong number of arguments."""
    if not least <= count <= most:
        need = str(least) if least == most else f"{least}..{most}"
        raise CalculatorError(
            f"{name} 需要 {need} 个参数，给了 {count} 个", f"{name} takes {need} arguments, not {count}"
        )


def _plain(name: str, on_real: Callable[[float], float], on_complex: Callable[[complex], complex] | None) -> Function:
    """A function of the analysis textbook; without ``on_complex`` it has real arguments only."""

    def apply(arguments: Arguments) -> Value:
        value = number(arguments[0], name)
        if isinstance(value, complex):
            if on_complex is None:
                real(value, name)
                raise ValueError(name)
            return on_complex(value)
        return on_real(as_float(value))

    return Function(1, 1, apply)


def _snapped(function: Callable[[float], float]) -> Callable[[float], float]:
    """Sine and cosine near their zeros: below the rounding error of the argument the value is zero, as at pi."""

    def apply(value: float) -> float:
        result = function(value)
        return 0.0 if abs(result) < 4 * 2.0**-53 * abs(value) else result

    return apply


_sin, _cos = _snapped(math.sin), _snapped(math.cos)


def _tan(value: float) -> float:
    if not _cos(value):
        raise ZeroDivisionError
    return math.tan(value) if _sin(value) else 0.0


def _sqrt(arguments: Arguments) -> Value:
    value = number(arguments[0], "sqrt")
    if isinstance(value, complex):
        return cmath.sqrt(value)
    if value < 0:
        return as_complex(number(_sqrt([-value]), "sqrt")) * 1j
    if isinstance(value, float):
        return math.sqrt(value)
    exact = root(value, 2)
    return math.sqrt(as_float(value)) if exact is None else exact


def _cbrt(arguments: Arguments) -> Value:
    value = real(arguments[0], "cbrt")
    if isinstance(value, float):
        return math.cbrt(value)
    exact = root(value if value >= 0 else -value, 3)
    if exact is None:
        return math.cbrt(as_float(value))
    return exact if value >= 0 else -exact


def _root(arguments: Arguments) -> Value:
    value, degree = number(arguments[0], "root"), whole(arguments[1], "root", 1)
    if not isinstance(value, complex) and value < 0 and degree % 2:
        return -real(power(-value, Fraction(1, degree)), "root")
    return power(value, Fraction(1, degree))


def _ln(value: Number) -> Number:
    if isinstance(value, complex):
        return cmath.log(value)
    if value == 0:
        raise ValueError("ln")
    if value < 0:
        return complex(as_float(real(_ln(-value), "log")), math.pi)
    if isinstance(value, Fraction):
        return math.log(value.numerator) - math.log(value.denominator)
    return math.log(value)


def _log(arguments: Arguments) -> Value:
    value = number(arguments[0], "log")
    return _ln(value) if len(arguments) == 1 else _log_to(value, number(arguments[1], "log"))


def _log_to(value: Number, base: Number) -> Number:
    if isinstance(value, int) and value > 0 and isinstance(base, int) and base > 1:
        # Whole powers have whole logarithms: log(1000, 10) is 3, not 2.9999999999999996.
        guess = round(math.log(value) / math.log(base))
        if base**guess == value:
            return guess
    if isinstance(value, int | float) and value > 0 and base == 10:
        return math.log10(value)
    if isinstance(value, int | float) and value > 0 and base == 2:
        return math.log2(value)
    top, bottom = _ln(value), _ln(base)
    if isinstance(top, complex) or isinstance(bottom, complex):
        return as_complex(top) / as_complex(bottom)
    return as_float(top) / as_float(bottom)


def _exp(arguments: Arguments) -> Value:
    value = number(arguments[0], "exp")
    if isinstance(value, complex):
        return cmath.exp(value)
    return 1 if value == 0 else math.exp(as_float(value))


def _abs(arguments: Arguments) -> Value:
    value = number(arguments[0], "abs")
    if isinstance(value, complex):
        return abs(value)
    return value if value >= 0 else -value


def _round(arguments: Arguments) -> Value:
    """Half goes away from zero, on the number as it is written: round(2.675, 2) is 2.68."""
    value = real(arguments[0], "round")
    digits = whole(arguments[1], "round") if len(arguments) == 2 else 0
    if abs(digits) > MAX_DIGITS:
        raise CalculatorError(f"round 的位数最多 {MAX_DIGITS}", f"round takes at most {MAX_DIGITS} digits")
    scale = Fraction(10) ** digits
    scaled = decimal_fraction(value) * scale
    rounded = Fraction(math.floor(abs(scaled) + Fraction(1, 2))) / scale
    rounded = -rounded if scaled < 0 else rounded
    return as_float(rounded) if isinstance(value, float) and digits > 0 else rounded


def _whole_numbers(name: str, fold: Callable[..., int]) -> Function:
    return Function(
        1, MAX_LIST_ITEMS, lambda arguments: fold(*(whole(v, name) for v in samples.sample(arguments, name)))
    )


def _sample(name: str, apply: Callable[[samples.Sample], Value], least: int = 1) -> Function:
    return Function(1, MAX_LIST_ITEMS, lambda arguments: apply(samples.sample(arguments, name, least)))


def _sum(arguments: Arguments) -> Value:
    items = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
    if any(isinstance(item, complex) for item in items):
        return sum(as_complex(number(item, "sum")) for item in items)
    values = [real(item, "sum") for item in items]
    return samples.like(samples.total(values), values)


def _product(values: samples.Sample) -> Value:
    result: Number = 1
    for value in values:
        result = settle(result * value)
    return result


def _two_samples(name: str, apply: Callable[[samples.Sample, samples.Sample], Value]) -> Function:
    return Function(
        2,
        2,
        lambda arguments: apply(
            samples.sample([_listed(arguments[0], name)], name, 2),
            samples.sample([_listed(arguments[1], name)], name, 2),
        ),
    )


def _listed(value: Value, name: str) -> Value:
    if not isinstance(value, list):
        raise CalculatorError(f"{name} 需要两个列表", f"{name} takes two lists")
    return value


def _quantiles(arguments: Arguments) -> Value:
    parts = whole(arguments[1], "quantiles", 2) if len(arguments) == 2 else 4
    if parts > MAX_LIST_ITEMS:
        raise CalculatorError(f"quantiles 最多 {MAX_LIST_ITEMS} 份", f"quantiles makes at most {MAX_LIST_ITEMS} parts")
    return samples.quantiles(samples.sample([_listed(arguments[0], "quantiles")], "quantiles", 2), parts)


def _reals(name: str, apply: Callable[..., Value], least: int, most: int) -> Function:
    return Function(least, most, lambda arguments: apply(*(real(value, name) for value in arguments)))


def _over(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda value: 1 / function(value)


def _table() -> dict[str, Function]:
    plain: dict[str, tuple[Callable[[float], float], Callable[[complex], complex] | None]] = {
        "sin": (_sin, cmath.sin),
        "cos": (_cos, cmath.cos),
        "tan": (_tan, cmath.tan),
        "cot": (lambda x: _cos(x) / _sin(x), None),
        "sec": (_over(_cos), None),
        "csc": (_over(_sin), None),
        "asin": (math.asin, cmath.asin),
        "acos": (math.acos, cmath.acos),
        "atan": (math.atan, cmath.atan),
        "sinh": (math.sinh, cmath.sinh),
        "cosh": (math.cosh, cmath.cosh),
        "tanh": (math.tanh, cmath.tanh),
        "asinh": (math.asinh, cmath.asinh),
        "acosh": (math.acosh, cmath.acosh),
        "atanh": (math.atanh, cmath.atanh),
        "degrees": (math.degrees, None),
        "radians": (math.radians, None),
        "gamma": (math.gamma, None),
        "lgamma": (math.lgamma, None),
        "erf": (math.erf, None),
        "erfc": (math.erfc, None),
    }
    table = {name: _plain(name, on_real, on_complex) for name, (on_real, on_complex) in plain.items()}
    table |= {
        "sqrt": Function(1, 1, _sqrt),
        "cbrt": Function(1, 1, _cbrt),
        "root": Function(2, 2, _root),
        "exp": Function(1, 1, _exp),
        "log": Function(1, 2, _log),
        "ln": Function(1, 1, _log),
        "log2": Function(1, 1, lambda a: _log_to(number(a[0], "log2"), 2)),
        "log10": Function(1, 1, lambda a: _log_to(number(a[0], "log10"), 10)),
        "pow": Function(2, 2, lambda a: power(number(a[0], "pow"), number(a[1], "pow"))),
        "atan2": _reals("atan2", lambda y, x: math.atan2(as_float(y), as_float(x)), 2, 2),
        "hypot": _reals("hypot", lambda *sides: _sqrt([settle(sum(side * side for side in sides))]), 1, 10),
        "mod": _reals("mod", lambda a, b: a % b, 2, 2),
        "abs": Function(1, 1, _abs),
        "sign": _reals("sign", lambda x: (x > 0) - (x < 0), 1, 1),
        "floor": _reals("floor", math.floor, 1, 1),
        "ceil": _reals("ceil", math.ceil, 1, 1),
        "trunc": _reals("trunc", math.trunc, 1, 1),
        "round": Function(1, 2, _round),
        "re": Function(1, 1, lambda a: number(a[0], "re").real),
        "im": Function(1, 1, lambda a: number(a[0], "im").imag),
        "conjugate": Function(1, 1, lambda a: number(a[0], "conjugate").conjugate()),
        "arg": Function(1, 1, lambda a: cmath.phase(as_complex(number(a[0], "arg")))),
        "gcd": _whole_numbers("gcd", math.gcd),
        "lcm": _whole_numbers("lcm", math.lcm),
        "factorial": Function(1, 1, counting.factorial),
        "factorial2": Function(1, 1, counting.double_factorial),
        "comb": Function(2, 2, counting.comb),
        "perm": Function(1, 2, counting.perm),
        "isprime": Function(1, 1, counting.prime),
        "min": _sample("min", min),
        "max": _sample("max", max),
        "sum": Function(1, MAX_LIST_ITEMS, _sum),
        "prod": _sample("prod", _product),
        "mean": _sample("mean", samples.mean),
        "median": _sample("median", samples.median),
        "mode": _sample("mode", samples.mode),
        "stdev": _sample("stdev", lambda values: samples.deviation(values, 1), 2),
        "pstdev": _sample("pstdev", lambda values: samples.deviation(values, 0)),
        "variance": _sample("variance", lambda values: samples.variance(values, 1), 2),
        "pvariance": _sample("pvariance", lambda values: samples.variance(values, 0)),
        "quantiles": Function(1, 2, _quantiles),
        "correlation": _two_samples("correlation", samples.correlation),
        "covariance": _two_samples("covariance", samples.covariance),
        "linreg": _two_samples("linreg", samples.regression),
    }
    return table | {alias: table[name] for alias, name in ALIASES.items() if name in table}


ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "tg": "tan",
        "ctg": "cot",
        "arcsin": "asin",
        "arccos": "acos",
        "arctan": "atan",
        "arctan2": "atan2",
        "arcsinh": "asinh",
        "arccosh": "acosh",
        "arctanh": "atanh",
        "deg": "degrees",
        "rad": "radians",
        "lg": "log10",
        "fabs": "abs",
        "ceiling": "ceil",
        "conj": "conjugate",
        "binomial": "comb",
        "nCr": "comb",
        "nPr": "perm",
        "average": "mean",
        "avg": "mean",
        "std": "stdev",
        "var": "variance",
        "product": "prod",
        "Abs": "abs",
    }
)
"""Other names under which people look for a function."""

FUNCTIONS: Mapping[str, Function] = MappingProxyType(_table())
