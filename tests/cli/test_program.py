"""How the ``vcp`` command is put together."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.cli.program import COMMANDS
from tests.cli.commands import command
from tests.program import LONGEST, environment


def test_a_command_that_runs_beside_a_server_does_not_load_one() -> None:
    program = (
        "import sys\n"
        "from app.cli.program import main\n"
        "for words in (['tool', '--help'], ['check', '--help'], ['approve', '--help']):\n"
        "    try:\n"
        "        main(words)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "print([name for name in ('app.services', 'app.web', 'fastapi', 'aiohttp', 'mcp') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=LONGEST, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", [["--help"], ["nothing"]])
def test_who_names_no_command_is_told_all(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ended = command(capsys, *words)
    assert all(name in ended.out + ended.err for name in COMMANDS)
