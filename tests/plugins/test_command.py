"""Commands become argument lists; a shell only where one is needed (spec 5.5, B10, D11, D38, P46)."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins.command import CommandError, Launch, plan_launch, split_command
from app.plugins.manifest import read_manifest


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("python main.py", ["python", "main.py"]),
        ("  python   main.py\t-u ", ["python", "main.py", "-u"]),
        ("python 'my script.py' \"a b\"", ["python", "my script.py", "a b"]),
        ("a''b \"\" c", ["ab", "", "c"]),
        ("grep 'a|b'", ["grep", "a|b"]),  # P50
        ('say "it\'s"', ["say", "it's"]),
        ("node x.js --opt=value a#b a~b", ["node", "x.js", "--opt=value", "a#b", "a~b"]),
        ("工具 参数", ["工具", "参数"]),
        ("a | b", None),
        ("a && b", None),
        ("a; b", None),
        ("a > b", None),
        ("a $HOME", None),
        ('a "$HOME"', None),
        ("a `b`", None),
        ("a *.py", None),
        ("~/bin/a", None),
        ("a #b", None),
        ("a\nb", None),
        ("", None),
    ],
)
def test_commands_are_split_like_a_shell_would_or_left_to_one(line: str, words: list[str] | None) -> None:
    assert split_command(line) == words


@given(st.lists(st.text("ab汉 '\t|$*#~=()", max_size=6), min_size=1, max_size=4))
def test_what_a_shell_quotes_is_split_back(words: list[str]) -> None:
    assert split_command(shlex.join(words)) == (words if words[0] else None)


@pytest.mark.parametrize("line", ["python 'main.py", 'a "b'])
def test_an_unclosed_quote_is_an_error(line: str) -> None:
    with pytest.raises(CommandError, match="unclosed quote"):
        split_command(line)


class Place:
    """A project with one plugin folder and a PATH of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "Plugin/X"
        self.bin = root / "bin"
        self.folder.mkdir(parents=True)
        self.bin.mkdir()

    def program(self, path: Path) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return str(path)

    def plan(self, command: str, **entry: Any) -> Launch:
        manifest = {"name": "X", "pluginType": "synchronous", "entryPoint": {"command": command, **entry}}
        (self.folder / "plugin-manifest.json").write_text(json.dumps(manifest))
        read = read_manifest(self.folder / "plugin-manifest.json")
        return plan_launch(read, self.folder, self.root, {"PATH": str(self.bin)}, "/server/python")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_program_is_found_on_the_childs_path(place: Place) -> None:
    node = place.program(place.bin / "node")
    (place.folder / "x.js").touch()
    assert place.plan("node x.js -v") == Launch((node, "x.js", "-v"))


def test_python_means_the_plugins_own_environment_then_path_then_the_servers(place: Place) -> None:  # D38, D11
    (place.folder / "main.py").touch()
    assert place.plan("python main.py").argv == ("/server/python", "main.py")
    assert place.plan("python3 main.py").argv == ("/server/python", "main.py")
    on_path = place.program(place.bin / "python")
    assert place.plan("python main.py").argv == (on_path, "main.py")
    own = place.program(place.folder / ".venv/bin/python")
    assert place.plan("python main.py").argv == (own, "main.py")
    assert place.plan("python main.py", interpreter="server").argv == ("/server/python", "main.py")


def test_a_version_that_is_not_there_has_no_stand_in(place: Place) -> None:
    with pytest.raises(CommandError, match=r'command "python3\.99" was not found'):
        place.plan("python3.99 -c pass")


def test_node_may_be_called_nodejs(place: Place) -> None:
    with pytest.raises(CommandError, match='command "node" was not found'):
        place.plan("node -e 1")
    nodejs = place.program(place.bin / "nodejs")
    assert place.plan("node -e 1").argv == (nodejs, "-e", "1")


def test_a_program_in_the_plugins_folder_needs_no_dot(place: Place) -> None:
    tool = place.program(place.folder / "Tool.exe")
    assert place.plan("Tool.exe a").argv == (tool, "a")
    assert place.plan("./Tool.exe a").argv == (tool, "a")


@pytest.mark.parametrize(
    "line", ["python Plugin/X/main.py", "python -u Plugin/X/main.py x", r"python Plugin\X\main.py"]
)
def test_a_script_may_be_named_from_the_projects_root(place: Place, line: str) -> None:  # P46
    script = place.folder / "main.py"
    script.touch()
    assert str(script) in place.plan(line).argv


def test_a_script_in_the_folder_wins_and_stays_as_written(place: Place) -> None:
    (place.folder / "main.py").touch()
    (place.root / "main.py").touch()
    assert place.plan("python main.py").argv[1] == "main.py"


def test_a_missing_script_is_named_with_the_places_looked_at(place: Place) -> None:
    place.program(place.bin / "node")
    with pytest.raises(CommandError) as caught:
        place.plan("node Plugin/X/gone.js")
    assert '"Plugin/X/gone.js" does not exist' in caught.value.message
    assert str(place.folder / "Plugin/X/gone.js") in caught.value.message
    assert str(place.root / "Plugin/X/gone.js") in caught.value.message


def test_code_in_the_command_is_no_script(place: Place) -> None:
    assert place.plan("python -c x.py").argv == ("/server/python", "-c", "x.py")
    assert place.plan("python -m pack.py").argv == ("/server/python", "-m", "pack.py")


@pytest.mark.parametrize(
    "line", ["cd sub", "A=1 python main.py", "exec node x.js", "python main.py 2>&1", r"echo a\ b"]
)
def test_shell_syntax_gets_a_shell(place: Place, line: str) -> None:
    assert place.plan(line) == Launch(("/bin/sh", "-c", line))


def test_a_shell_finds_the_plugins_own_environment_first(place: Place) -> None:
    place.program(place.folder / ".venv/bin/python")
    assert place.plan("python a.py | cat").path_first == str(place.folder / ".venv/bin")
    assert place.plan("python a.py | cat", interpreter="server").path_first == "/server"


def test_a_relative_entry_of_path_does_not_follow_the_plugins_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = place.program(place.bin / "node")
    monkeypatch.chdir(place.root)
    manifest = {"name": "X", "pluginType": "synchronous", "entryPoint": {"command": "node -e 1"}}
    (place.folder / "plugin-manifest.json").write_text(json.dumps(manifest))
    read = read_manifest(place.folder / "plugin-manifest.json")
    launch = plan_launch(read, place.folder, place.root, {"PATH": "bin"}, "/server/python")
    assert launch.argv[0] == node
