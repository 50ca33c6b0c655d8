"""Statistics over lists of real numbers; exact numbers give exact results."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from .arithmetic import Real, Value, as_float, decimal_fraction, power, real, settle
from .failure import CalculatorError

Sample = list[Real]


def sample(arguments: list[Value], name: str, least: int = 1) -> Sample:
    """The numbers of ``name([1, 2, 3])`` or ``name(1, 2, 3)``; at least ``least`` of them."""
    items = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
    if len(items) < least:
        raise CalculatorError(f"{name} 至少需要 {least} 个数", f"{name} needs at least {least} numbers")
    return [real(item, name) for item in items]


def total(values: Sample) -> Fraction:
    """The sum without rounding on the way: decimals are taken as they are written."""
    return sum((decimal_fraction(value) for value in values), Fraction(0))


def like(result: Fraction, values: Sample) -> Real:
    """An exact result as a decimal when a decimal went in."""
    if any(isinstance(value, float) for value in values):
        return as_float(result)
    settled = settle(result)
    return settled if isinstance(settled, int | Fraction) else result


def mean(values: Sample) -> Real:
    """The arithmetic mean."""
    return like(total(values) / len(values), values)


def median(values: Sample) -> Real:
    """The middle value, or the mean of the two middle ones."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else mean(ordered[half - 1 : half + 1])


def mode(values: Sample) -> Value:
    """The most frequent value; a list when several are equally frequent."""
    counts = Counter(values)
    most = max(counts.values())
    winners: list[Value] = [value for value, count in counts.items() if count == most]
    return winners[0] if len(winners) == 1 else winners


def _squares(values: Sample) -> Fraction:
    centre = total(values) / len(values)
    return sum(((decimal_fraction(value) - centre) ** 2 for value in values), Fraction(0))


def variance(values: Sample, spare: int) -> Real:
    """The variance; ``spare`` is 1 for a sample, 0 for a whole population."""
    return like(_squares(values) / (len(values) - spare), values)


def deviation(values: Sample, spare: int) -> Value:
    """The standard deviation."""
    result = power(_squares(values) / (len(values) - spare), Fraction(1, 2))
    return settle(result)


def quantiles(values: Sample, parts: int) -> Value:
    """The ``parts - 1`` cut points between equal parts of the population that the sample stands for (exclusive)."""
    ordered = sorted(values)
    points: list[Value] = []
    for cut in range(1, parts):
        place, rest = divmod(cut * (len(ordered) + 1), parts)
        place = min(max(place, 1), len(ordered) - 1)
        rest = cut * (len(ordered) + 1) - place * parts
        low, high = decimal_fraction(ordered[place - 1]), decimal_fraction(ordered[place])
        points.append(like((low * (parts - rest) + high * rest) / parts, values))
    return points


def _pairs(first: Sample, second: Sample, name: str) -> tuple[Fraction, Fraction, Fraction]:
    """Sums of squares of both lists and of their products, all about the means."""
    if len(first) != len(second):
        raise CalculatorError(f"{name} 的两个列表长度不同", f"the two lists of {name} differ in length")
    centre, other = total(first) / len(first), total(second) / len(second)
    products = sum(
        ((decimal_fraction(a) - centre) * (decimal_fraction(b) - other) for a, b in zip(first, second, strict=True)),
        Fraction(0),
    )
    return _squares(first), _squares(second), products


def correlation(first: Sample, second: Sample) -> Value:
    """Pearson's correlation coefficient."""
    left, right, products = _pairs(first, second, "correlation")
    if not left or not right:
        raise CalculatorError("数据没有变化，相关系数无定义", "a list without variation has no correlation")
    return settle(as_float(products) / as_float(real(power(left * right, Fraction(1, 2)), "correlation")))


def covariance(first: Sample, second: Sample) -> Value:
    """The covariance of a sample."""
    return like(_pairs(first, second, "covariance")[2] / (len(first) - 1), first + second)


def regression(first: Sample, second: Sample) -> Value:
    """Slope and intercept of the line with the least squares."""
    left, _, products = _pairs(first, second, "linreg")
    if not left:
        raise CalculatorError("自变量没有变化，无法拟合直线", "no line fits: the first list has no variation")
    slope = products / left
    intercept = total(second) / len(second) - slope * total(first) / len(first)
    return [like(slope, first + second), like(intercept, first + second)]
