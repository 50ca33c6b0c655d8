"""scripts/environment.sh and the Makefile, with a stand-in for uv in place of a network."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKERS = "-n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder"
INPUTS = ("pyproject.toml", "requirements/run.lock", "requirements/test.lock", "scripts/environment.sh", "Makefile")
LONGEST = 60  # seconds; only there to end a run that hangs

# Makes an "environment" whose Python is ours, and writes down every installation; fails while FAIL exists.
STAND_IN = """#!/bin/sh
case $1 in
    --version) echo 'uv 1.0'; exit 0 ;;
    venv) for folder; do :; done; mkdir -p "$folder/bin"; ln -s {python} "$folder/bin/python" ;;
    pip) echo "$@" >>installed.txt; [ ! -e FAIL ] || exit 1
         packages=.venv/lib/python3.11/site-packages; mkdir -p $packages; pwd >$packages/_vcp_server.pth ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A copy of what the script reads, in a folder whose name has spaces and letters beyond ASCII."""

    folder: Path
    tools: Path

    def make(self, wanted: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "scripts/environment.sh", wanted],
            cwd=self.folder,
            env={"PATH": str(self.tools)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )

    def installs(self) -> list[str]:
        """The lock files installed since the last question, and the project as ``.``."""
        log = self.folder / "installed.txt"
        if not log.exists():
            return []
        lines = log.read_text(encoding="utf-8").splitlines()
        log.unlink()
        return [line.split()[-1] for line in lines]

    def edit(self, name: str) -> None:
        path = self.folder / name
        path.write_text(path.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = tmp_path / "a path with  spaces 目录"
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in INPUTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for tool in ("sh", "cat", "cksum", "dirname", "ln", "mkdir", "mv", "rm"):
        found = shutil.which(tool)
        assert found is not None, tool
        (tools / tool).symlink_to(found)
    uv = tools / "uv"
    uv.write_text(STAND_IN.format(python=shlex.quote(sys.executable)), encoding="utf-8")
    uv.chmod(0o755)
    return Checkout(folder, tools)


RUN = ["requirements/run.lock", "."]
TEST = ["requirements/test.lock", "."]


def test_the_first_run_installs_the_lock_and_the_project(checkout: Checkout) -> None:
    assert checkout.make("run").returncode == 0
    assert checkout.installs() == RUN


def test_uv_compiles_the_packages_so_that_the_first_call_of_a_tool_is_not_the_one_that_waits(
    checkout: Checkout,
) -> None:
    checkout.make("run")
    packages, _ = (checkout.folder / "installed.txt").read_text(encoding="utf-8").splitlines()
    assert "--compile-bytecode" in packages.split()


@pytest.mark.parametrize("wanted", ["run", "test"])
def test_the_second_run_does_nothing_and_says_nothing(checkout: Checkout, wanted: str) -> None:
    checkout.make(wanted)
    checkout.installs()
    again = checkout.make(wanted)
    assert (again.returncode, again.stdout, again.stderr, checkout.installs()) == (0, "", "", [])


def test_running_after_testing_and_testing_again_needs_nothing_new(checkout: Checkout) -> None:
    checkout.make("run")
    checkout.make("test")
    assert checkout.installs() == RUN + TEST
    for wanted in ("run", "test", "run"):
        assert checkout.make(wanted).returncode == 0
    assert checkout.installs() == []


INSTALLED_FROM = ("pyproject.toml", "requirements/run.lock", "requirements/test.lock", "scripts/environment.sh")


@pytest.mark.parametrize("name", INSTALLED_FROM)
def test_an_edited_input_installs_again(checkout: Checkout, name: str) -> None:
    checkout.make("test")
    checkout.installs()
    checkout.edit(name)
    checkout.make("test")
    assert checkout.installs() == TEST
    checkout.make("test")
    assert checkout.installs() == []


def test_a_failed_installation_is_a_failure_and_is_tried_again(checkout: Checkout) -> None:
    (checkout.folder / "FAIL").touch()
    assert checkout.make("test").returncode != 0
    assert checkout.installs() == ["requirements/test.lock"]
    (checkout.folder / "FAIL").unlink()
    assert checkout.make("test").returncode == 0
    assert checkout.installs() == TEST


def test_a_failed_upgrade_leaves_no_stamp_of_the_old_state(checkout: Checkout) -> None:
    checkout.make("test")
    before = (checkout.folder / "pyproject.toml").read_bytes()
    checkout.edit("pyproject.toml")
    (checkout.folder / "FAIL").touch()
    checkout.make("test")
    (checkout.folder / "FAIL").unlink()
    checkout.installs()
    (checkout.folder / "pyproject.toml").write_bytes(before)
    checkout.make("test")
    assert checkout.installs() == TEST


def test_the_link_to_the_checkout_can_be_read_in_every_locale(checkout: Checkout) -> None:
    checkout.make("run")
    packages = checkout.folder / ".venv/lib/python3.11/site-packages"
    place = (packages / "_vcp_server.pth").read_text(encoding="ascii").rstrip("\n")
    assert (packages / place).resolve() == checkout.folder.resolve()


def test_a_checkout_that_was_moved_gets_a_new_environment(checkout: Checkout, tmp_path: Path) -> None:
    checkout.make("run")
    moved = Checkout(checkout.folder.rename(tmp_path / "else where"), checkout.tools)
    moved.installs()
    answer = moved.make("run")
    assert "Making" in answer.stderr
    assert moved.installs() == RUN


def test_an_environment_without_its_interpreter_is_made_again(checkout: Checkout) -> None:
    checkout.make("run")
    checkout.installs()
    (checkout.folder / ".venv/bin/python").unlink()
    assert checkout.make("run").returncode == 0
    assert checkout.installs() == RUN


def test_a_shim_that_cannot_run_counts_as_no_uv_and_no_python_is_named_as_the_fault(checkout: Checkout) -> None:
    (checkout.tools / "uv").write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    answer = checkout.make("run")
    assert answer.returncode == 1
    assert "no Python 3.11 or newer was found" in answer.stderr
    assert not (checkout.folder / ".venv/.installed").exists()


def test_a_python_without_venv_is_told_apart_from_no_python(checkout: Checkout) -> None:
    (checkout.tools / "uv").unlink()
    python = checkout.tools / "python3"
    python.write_text("#!/bin/sh\ncase $2 in *ensurepip*) exit 1 ;; esac\n", encoding="utf-8")
    python.chmod(0o755)
    answer = checkout.make("run")
    assert answer.returncode == 1
    assert "apt-get install python3-venv" in answer.stderr


def test_another_word_is_refused(checkout: Checkout) -> None:
    answer = checkout.make("everything")
    assert answer.returncode == 1
    assert "usage:" in answer.stderr


def make(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    return done.stdout


def test_make_alone_lists_every_target(checkout: Checkout) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    match = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert match
    listed = re.findall(r"^  make (\S+) +\S", make(checkout.folder), re.MULTILINE)
    assert sorted(listed) == sorted(match[1].split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run",), ".venv/bin/python -m app.cli serve --home ."),
        (("run", "ARGS=--port 7000"), ".venv/bin/python -m app.cli serve --home . --port 7000"),
        (("test",), f'.venv/bin/python -m pytest -m "not external" {WORKERS}'),
        (("test", "ARGS=-n 0"), f'.venv/bin/python -m pytest -m "not external" {WORKERS} -n 0'),
    ],
)
def test_make_starts_the_right_program(checkout: Checkout, words: tuple[str, ...], expected: str) -> None:
    lines = [line.strip() for line in make(checkout.folder, "--dry-run", *words).splitlines()]
    assert len(lines) == 2
    assert lines[0] == f"sh scripts/environment.sh {words[0]}"
    assert lines[1] == expected


def test_the_continuous_check_runs_what_a_contributor_runs() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.findall(r"^make (\S+)$", script, re.MULTILINE) == ["lint", "test", "test-external"]
    assert os.access(ROOT / ".ci/run", os.X_OK)
