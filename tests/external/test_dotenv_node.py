"""What the editor of ``config.env`` writes is read alike by the library that older servers use (spec 2.1)."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.config.env_edit import EnvEditError, edited
from app.config.env_layout import Layout
from tests.program import LONGEST

pytestmark = pytest.mark.external

SCRIPT = Path(__file__).with_name("dotenv_values.mjs")
LINES = (
    *("A=1", "A = two words  # note", 'A="x # y"', 'A="l1\nl2"', "A='it's'", 'A="open', "A=", "A: v"),
    *(
        "export B='b'",
        "B=`t\nu` # c",
        'B="a \\"b\\" c"',
        "B=a#b",
        "# c \" and '",
        "#C=e",
        "stray",
        "变量=1",
        "",
        "C.d-e=1",
    ),
)
VALUES = (
    "",
    "x",
    " ",
    "D:\\new",
    'you are "X" ok',
    "a#b",
    "x\ny",
    "「始」末",
    "'",
    '"',
    "`",
    'a"b',
    "a\\nb",
    "l1\n#l2\n'",
)
CASES = 5000


def read_by_node(texts: list[str]) -> list[dict[str, str]]:
    done = subprocess.run(
        ("node", str(SCRIPT)),
        input=json.dumps(texts),
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


def test_an_edit_changes_exactly_one_value_for_dotenv_too() -> None:
    chance = random.Random(16)
    cases: list[tuple[Any, ...]] = []
    for _ in range(CASES):
        end = chance.choice(("\n", "\r\n"))
        before = end.join(chance.choice(LINES) for _ in range(chance.randrange(7))) + chance.choice(("", end))
        made_up = "".join(chance.choice("ab\"'`#\\n \n:") for _ in range(chance.randrange(10)))
        key, value = chance.choice("ABCD"), chance.choice((chance.choice(VALUES), made_up))
        try:
            cases.append((before, edited(before, {key: value}, Layout()), key, value))
        except EnvEditError:
            continue
    assert len(cases) > CASES * 0.9
    earlier = read_by_node([case[0] for case in cases])
    later = read_by_node([case[1] for case in cases])
    for (before, after, key, value), old, new in zip(cases, earlier, later, strict=True):
        assert new == {**old, key: value}, (before, after)
