"""SciCalculator as a child process (vcp-core 4.9, 5.6, 10.4; D5, D38; P44, P45, P48)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "Plugin" / "SciCalculator"
ENDLESS = "integrate(sin(sin(sin(x)))^x/(x^x+tan(x)),x)"


@pytest.fixture
def calculator(run_plugin: Any) -> Any:
    def run(arguments: object = None, **more: Any) -> Any:
        return run_plugin("SciCalculator", arguments, **more)

    return run


def test_the_answer_is_the_framed_text(calculator: Any) -> None:
    answer = calculator({"expression": "1+1"})
    assert answer.json == {"status": "success", "result": "###计算结果：2###，请将结果转告用户"}
    assert (answer.code, answer.stderr) == (0, "")


def test_an_error_says_so_in_json_and_exit_code(calculator: Any) -> None:
    answer = calculator({"expression": "1/0"})
    assert answer.json == {"status": "error", "error": "除数为零，没有结果 / division by zero has no result"}
    assert answer.code == 1


def test_other_arguments_do_no_harm(calculator: Any) -> None:
    assert "###计算结果：4###" in calculator({"maid": "Nova", "expression": "2*2", "x": [1]}).json["result"]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"expression1": "1+1", "expression2": "2*3", "expression10": "5"}, "2; 6; 5"),
        ({"expression": ["1+1", "2*3"]}, "2; 6"),
        (["1+1"], "2"),
        ("1+1", "2"),
        ({"expression": 7}, "7"),
        ({"Expression": "1+1\r\n"}, "2"),
    ],
)
def test_expressions_come_in_several_forms(calculator: Any, arguments: object, value: str) -> None:
    assert calculator(arguments).json["result"] == f"###计算结果：{value}###，请将结果转告用户"


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"", "expression"),
        (b"{}", "expression"),
        (b'{"expression":""}', "expression"),
        (b'{"expression":null}', "expression"),
        (b'{"expression":{"a":1}}', "dict"),
        (b'{"expression":[["1"]]}', "list"),
        (b'{"expression":true}', "bool"),
        (b"{oops", "JSON"),
        (b"\xff", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'"' + b"1" * (1024 * 1024) + b'"', "1048576"),
        (json.dumps(["1"] * 51).encode(), "50"),
        (b'{"expression":"\\ud800"}', "U+D800"),
        (b'{"expression":"\\u0000"}', "U+0000"),
    ],
)
def test_input_without_an_expression_is_a_clear_error(calculator: Any, raw: bytes, named: str) -> None:
    answer = calculator(raw=raw)
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert named in answer.json["error"]


def test_the_output_is_utf_8_in_any_locale(calculator: Any) -> None:
    answer = calculator(
        {"expression": "pi"}, LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    assert answer.json["result"].startswith("###计算结果：3.14")


def test_a_calculation_that_does_not_end_is_stopped(calculator: Any) -> None:
    answer = calculator({"expression": ENDLESS}, SciCalculatorSeconds="0.2")
    assert (answer.json["status"], answer.code) == ("error", 1)
    assert "0.2 s" in answer.json["error"]


def run_script(script: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", script], cwd=PLUGIN, capture_output=True, timeout=60, check=False)


def test_work_that_python_cannot_interrupt_is_stopped_too() -> None:
    """One multiplication of huge numbers never lets a signal handler run."""
    script = (
        "from calculator.confinement import confined; from calculator.failure import CalculatorError\n"
        "def work():\n    n = 3 ** (10 ** 8); return b''\n"
        "try: confined(work, 0.2, print)\n"
        "except CalculatorError as error: print(error)"
    )
    assert b"0.2 s" in run_script(script).stdout


def test_memory_is_bounded() -> None:
    script = (
        "import main; from calculator.confinement import confined; import calculator.evaluation\n"
        "def work():\n    blocks = []\n    while True: blocks.append(bytearray(64 * 1024 * 1024))\n"
        "def guarded():\n    try: return work()\n    except MemoryError: return b'out of memory'\n"
        "print(confined(guarded, 20, print))"
    )
    assert run_script(script).stdout.strip() == b"b'out of memory'"


def test_a_child_that_crashes_is_a_clear_error() -> None:
    script = (
        "import os, signal; from calculator.confinement import confined\n"
        "from calculator.failure import CalculatorError\n"
        "try: confined(lambda: os.kill(os.getpid(), signal.SIGKILL), 5, print)\n"
        "except CalculatorError as error: print(error)"
    )
    assert b"signal 9" in run_script(script).stdout


def test_systems_without_fork_have_a_time_limit_too() -> None:
    script = (
        "import os; del os.fork\n"
        "from calculator.confinement import confined\n"
        "import threading\n"
        "print(confined(lambda: b'quick', 30, print), flush=True)\n"
        "confined(lambda: threading.Event().wait(), 0.1, lambda error: print(error, flush=True))"
    )
    done = run_script(script)
    assert b"quick" in done.stdout and b"0.1 s" in done.stdout
    assert done.returncode == 1


def loaded_modules(expression: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "main.py"],
        cwd=PLUGIN,
        input=json.dumps({"expression": expression}).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.stderr.decode()


@pytest.mark.parametrize("expression", ["1+1", "mean([1,2])", "sin(pi)+5!", "sqr(1)"])
def test_numbers_do_not_load_sympy(expression: str) -> None:
    assert "sympy" not in loaded_modules(expression)


def test_formulas_load_sympy() -> None:
    assert "sympy" in loaded_modules("diff(x^2,x)")


def test_nothing_the_caller_wrote_is_ever_executed() -> None:
    """An audit hook sees all code that is run; sympy runs some of its own, but none with the caller's marks in it."""
    script = """
import sys
import calculator.symbolic
from calculator.evaluation import calculate
from calculator.failure import CalculatorError

def marked(code):
    inner = [part for part in code.co_consts if hasattr(part, "co_consts")]
    words = [*code.co_names, *code.co_varnames, *map(str, code.co_consts)]
    return any("x_731" in word or "918273645" in word for word in words) or any(map(marked, inner))

ran = []
def hook(event, arguments):
    if event == "exec" and arguments[0].co_filename != __file__ and marked(arguments[0]):
        ran.append(arguments[0])
sys.addaudithook(hook)
exec("x_731 = 918273645")  # proves that the hook sees it
for form in ["918273645+1", "diff(918273645*x_731^2,x_731)", "integrate(sin(x_731)/x_731,x_731,0,918273645)",
             "solve(x_731^2=918273645,x_731)", "nsolve(cos(x_731)=918273645*x_731,1)", "limit(1/x_731,x_731,oo)",
             "det([[x_731,2],[3,918273645]])", "series(e^x_731,x_731)", "simplify(x_731+918273645)",
             "factor(x_731^2-918273645^2)", "__import__('x_731')", "eval('918273645')", "integral('x_731**2',0,1)"]:
    try:
        calculate(form)
    except CalculatorError:
        pass
print(len(ran))
"""
    done = run_script(f"__file__ = 'test'\n{script}")
    assert done.stdout.strip() == b"1", done.stderr.decode()


# --- the manifest ----------------------------------------------------------------------------------------------------


def manifest() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((PLUGIN / "plugin-manifest.json").read_text("utf-8"))
    return read


def test_the_manifest_fits_the_plugin() -> None:
    read = manifest()
    assert (read["name"], read["displayName"]) == ("SciCalculator", "科学计算器")
    assert read["entryPoint"]["interpreter"] == "server"
    assert read["communication"] == {"protocol": "stdio", "timeout": 15_000}
    (command,) = read["capabilities"]["invocationCommands"]
    assert command["parameters"]["required"] == ["expression"]


def test_every_expression_of_the_example_works() -> None:
    from Plugin.SciCalculator.calculator.evaluation import calculate

    example = manifest()["capabilities"]["invocationCommands"][0]["example"]
    expressions = [part.split("「末」")[0] for part in example.split("expression:「始」")[1:]]
    assert len(expressions) == 2
    assert all(calculate(expression) for expression in expressions)


def test_every_function_of_the_description_exists() -> None:
    from Plugin.SciCalculator.calculator.evaluation import SYMBOLIC
    from Plugin.SciCalculator.calculator.functions import FUNCTIONS

    text = manifest()["capabilities"]["invocationCommands"][0]["description"]
    for line in ("函数", "统计", "微积分", "代数", "矩阵"):
        part = next(part for part in text.split("\n") if part.startswith(f"- {line}"))
        words = [word.split("(")[0] for word in part.partition("：")[2].replace("、", " ").replace("，", " ").split()]
        named = {word for word in words if word.isascii() and word.isidentifier()}
        assert named <= set(FUNCTIONS) | SYMBOLIC
        assert named
