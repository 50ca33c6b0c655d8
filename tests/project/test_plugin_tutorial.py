"""``docs/plugins.md``: every file in it is written, every command in it is run, every output in it is compared."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.program import ROOT, vcp

TUTORIAL = ROOT / "docs" / "plugins.md"
_BLOCK = re.compile(r"^```(\w+)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, what stands behind it in the first line, its text."""

    language: str
    label: str
    text: str


def blocks() -> list[Block]:
    return [Block(*(part or "" for part in match)) for match in _BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))]


def examples() -> Iterator[tuple[str, str]]:
    """Each command with the output that stands below it."""
    listed = blocks()
    for command, output in itertools.pairwise(listed):
        if command.label == "run":
            assert output.label == "output", command.text
            yield command.text.strip(), output.text.strip()


def write_files(home: Path) -> None:
    for block in blocks():
        if block.label.startswith("file="):
            path = home / block.label.removeprefix("file=")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tutorial")
    write_files(home)
    return home


@pytest.mark.parametrize(("command", "output"), list(examples()), ids=lambda text: text.splitlines()[0][:40])
def test_every_command_of_the_tutorial_gives_the_output_below_it(home: Path, command: str, output: str) -> None:
    program, *words = shlex.split(command)
    assert program == "vcp"
    done = vcp(*words, cwd=home, environ={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    pattern = ".+".join(re.escape(part) for part in json.dumps(json.loads(output), ensure_ascii=False).split("…"))
    assert re.fullmatch(pattern, json.dumps(json.loads(done.stdout), ensure_ascii=False)), done.stdout


def test_every_json_file_of_the_tutorial_is_json_and_every_python_file_compiles(home: Path) -> None:
    files = [path for path in home.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".py", ".env"}
    for path in files:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".py":
            compile(path.read_text(encoding="utf-8"), str(path), "exec")
