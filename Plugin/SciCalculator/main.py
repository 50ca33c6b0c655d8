"""SciCalculator: one JSON object on stdin, one on stdout (vcp-core 5.6); the text is never evaluated as code.

The result reads ``###计算结果：<value>###，请将结果转告用户`` on one line (vcp-core 4.9). Exit code 1 on errors.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

from calculator.confinement import confined
from calculator.evaluation import calculate
from calculator.failure import CalculatorError
from calculator.limits import MAX_DIGITS, STACK_FRAMES
from calculator.request import MAX_INPUT_BYTES, read_expressions, read_seconds


def main() -> int:
    """Run one call; returns the exit code."""
    try:
        expressions = read_expressions(sys.stdin.buffer.read(MAX_INPUT_BYTES + 1))
        answer = confined(lambda: work(expressions), read_seconds(os.environ), lambda error: put(failed(error)))
        answer = answer or failed(CalculatorError("计算进程没有给出结果", "the calculation gave no answer"))
    except CalculatorError as error:
        answer = failed(error)
    put(answer)
    return 0 if answer.startswith(b'{"status": "success"') else 1


def work(expressions: list[str]) -> bytes:
    """The answer to print for the expressions; every failure becomes an error answer."""
    sys.setrecursionlimit(STACK_FRAMES)
    sys.set_int_max_str_digits(2 * MAX_DIGITS)
    warnings.simplefilter("ignore")  # Python's remarks on odd literals are not for the caller
    try:
        value = "; ".join(calculate(expression) for expression in expressions)
    except CalculatorError as error:
        return failed(error)
    except RecursionError:
        return failed(CalculatorError("算式嵌套太深，请分成几步计算", "nested too deep: calculate in steps"))
    except MemoryError:
        return failed(CalculatorError("内存不够，请把算式改小", "out of memory: make the expression smaller"))
    return encoded({"status": "success", "result": f"###计算结果：{value}###，请将结果转告用户"})


def failed(error: CalculatorError) -> bytes:
    """The answer for an expression without a value."""
    return encoded({"status": "error", "error": str(error)})


def encoded(fields: dict[str, str]) -> bytes:
    """JSON in UTF-8, whatever the system's code page is (P44); half surrogate pairs become question marks."""
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def put(answer: bytes) -> None:
    """Print the one answer."""
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
