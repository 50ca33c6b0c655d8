"""Functions on whole numbers; the size of a result is estimated before it is made."""

from __future__ import annotations

import math

from .arithmetic import Value, whole
from .limits import check_bits, factorial_bits

Arguments = list[Value]


def factorial(arguments: Arguments) -> Value:
    """``n!``."""
    n = whole(arguments[0], "factorial (!)", 0)
    check_bits(factorial_bits(n))
    return math.factorial(n)


def double_factorial(arguments: Arguments) -> Value:
    """``n!!``: every second factor."""
    n = whole(arguments[0], "factorial2 (!!)", 0)
    check_bits(factorial_bits(n) / 2)
    return math.prod(range(n, 0, -2))


def comb(arguments: Arguments) -> Value:
    """The number of ways to choose k of n."""
    n, k = whole(arguments[0], "comb", 0), whole(arguments[1], "comb", 0)
    if k > n:
        return 0
    k = min(k, n - k)
    check_bits(k * math.log2(n) - factorial_bits(k) if k else 0)
    return math.comb(n, k)


def perm(arguments: Arguments) -> Value:
    """The number of ways to arrange k of n, or all n."""
    n = whole(arguments[0], "perm", 0)
    k = whole(arguments[1], "perm", 0) if len(arguments) == 2 else n
    if k > n:
        return 0
    check_bits(k * math.log2(n) if k else 0)
    return math.perm(n, k)


def prime(arguments: Arguments) -> Value:
    """Miller-Rabin with fixed bases: proven below 3.3e24, beyond that wrong with negligible probability."""
    n = whole(arguments[0], "isprime")
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    if n < 2 or n in bases:
        return n in bases
    if any(n % base == 0 for base in bases):
        return False
    check_bits(n.bit_length() * 8)
    twos = ((n - 1) & -(n - 1)).bit_length() - 1
    for base in bases:
        x = pow(base, (n - 1) >> twos, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True
