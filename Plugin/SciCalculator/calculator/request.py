"""What the caller hands in: the expressions among its arguments, and the time limit in the environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from .failure import CalculatorError
from .limits import DEFAULT_SECONDS, MAX_EXPRESSIONS, MAX_SECONDS, MIN_SECONDS

MAX_INPUT_BYTES = 1024 * 1024
"""Longest JSON on stdin."""

_NAME = re.compile(r"(?:expression|expr|formula)_?([0-9]{0,4})", re.IGNORECASE)


def read_expressions(data: bytes) -> list[str]:
    """The expressions of a stdin JSON value, in order.

    Usually an object with ``expression``; ``expression1``, ``expression2`` … and lists give several, and a bare JSON
    string or list is taken as the expressions themselves.
    """
    if len(data) > MAX_INPUT_BYTES:
        raise CalculatorError(f"输入超过 {MAX_INPUT_BYTES} 字节", f"the input is over {MAX_INPUT_BYTES} bytes")
    try:
        arguments = json.loads(data.decode("utf-8-sig")) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise CalculatorError(f"标准输入不是 JSON：{error}", f"stdin is not JSON: {error}") from error
    if isinstance(arguments, dict):
        named = [(match[1], value) for name, value in arguments.items() if (match := _NAME.fullmatch(name))]
        named.sort(key=lambda pair: int(pair[0] or 0))
        found = [text for _, value in named for text in _texts(value)]
    else:
        found = _texts(arguments)
    found = [text for text in found if text.strip()]
    if not found:
        raise CalculatorError(
            "缺少参数 expression：请填写要计算的表达式，例如 expression:「始」1+1「末」",
            "the argument expression is missing: give the expression, e.g. expression:「始」1+1「末」",
        )
    if len(found) > MAX_EXPRESSIONS:
        raise CalculatorError(
            f"一次最多 {MAX_EXPRESSIONS} 个表达式", f"at most {MAX_EXPRESSIONS} expressions in one call"
        )
    return found


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [repr(value)]
    if isinstance(value, list):
        return [text for item in value for text in (_texts(item) if not isinstance(item, list) else [_refuse(item)])]
    return [] if value is None else [_refuse(value)]


def _refuse(value: object) -> str:
    kind = type(value).__name__
    raise CalculatorError(f"expression 必须是文本，不能是 {kind}", f"expression must be text, not {kind}")


def read_seconds(environment: Mapping[str, str]) -> float:
    """The time limit of the calculation, from ``SciCalculatorSeconds``."""
    try:
        seconds = float(environment.get("SciCalculatorSeconds", "") or DEFAULT_SECONDS)
    except ValueError:
        seconds = DEFAULT_SECONDS
    return min(max(seconds, MIN_SECONDS), MAX_SECONDS) if seconds == seconds else DEFAULT_SECONDS
