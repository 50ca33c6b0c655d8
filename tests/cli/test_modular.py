"""``vcp modular`` as clients and people start it (mcp.md 2.1, 2.3, 2.7, 2.8)."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import command
from tests.program import LONGEST, VCP, environment

PEER = Path(__file__).parents[1] / "mcp" / "client" / "peer.py"


def config(tmp_path: Path, *modes: str, name: str = "servers.json", **more: Any) -> Path:
    entry = {"description": "Echoes", "command": sys.executable, "args": ["-S", "-E", str(PEER), *modes]}
    path = tmp_path / name
    path.write_text(json.dumps({"mcpServers": {"one": entry}, **more}), "utf-8")
    return path


@contextmanager
def started(*words: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        (*VCP, "modular", *words),
        cwd=cwd,
        env=environment({"HOME": str(cwd)}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=LONGEST)


def say(process: subprocess.Popen[str], *messages: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
    process.stdin.flush()


def heard(process: subprocess.Popen[str], id: int) -> Any:
    assert process.stdout is not None
    while True:
        message = json.loads(process.stdout.readline())
        if message.get("id") == id:
            return message


BEGIN = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
    {
        "id": 3,
        "method": "tools/call",
        "params": {"name": "call-modular-tool", "arguments": {"group": "one", "name": "slow", "args": {"text": "0.3"}}},
    },
)


def test_it_serves_over_its_pipes_until_the_end_of_input(tmp_path: Path) -> None:
    """MOD-1, MOD-11 (ours), STD-40, STD-45; mcp.md 2.8: frames on stdout, lines with their level on stderr."""
    path = config(tmp_path, "tools=echo+slow", odd=1)
    with started(path.name, cwd=tmp_path) as process:
        say(process, *BEGIN)
        assert heard(process, 1)["result"]["protocolVersion"] == "2025-11-25"
        tools = heard(process, 2)["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["get-modular-tools", "call-modular-tool"]
        out, err = process.communicate(timeout=LONGEST)  # the end of input; the call that runs is answered
        (answer,) = [message for line in out.splitlines() if "id" in (message := json.loads(line))]
        assert answer["result"]["content"] == [{"type": "text", "text": "slow"}]
        assert process.returncode == 0
    lines = err.splitlines()
    assert all(line.startswith(("[info] ", "[warn] ", "[error] ")) for line in lines), err
    assert "[info] config loaded: servers.json, 1 servers" in lines
    assert any(line.startswith("[warn] servers.json:1: odd: ") for line in lines)
    assert "[info] \u2713 one" in lines
    assert "[info] connected 1 groups, all valid" in lines


def test_a_signal_ends_it_with_0_and_its_servers_with_it(tmp_path: Path) -> None:  # MOD-11, STD-41
    notes = tmp_path / "notes"
    path = config(tmp_path, "tools=slow", f"notes={notes}", expose="flat")
    with started(str(path), cwd=tmp_path) as process:
        say(process, *BEGIN[:3])
        assert [tool["name"] for tool in heard(process, 2)["result"]["tools"]] == ["one__slow"]  # MOD-14
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST) == 0
    pid = int(notes.read_text("utf-8").splitlines()[0].removeprefix("started "))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ('{"mcpServers":\n oops', "[error] bad.json:2: "),
        ("7", "[error] bad.json: "),
        (None, "[error] bad.json: 无法读取 / cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_ends_it_with_1_and_one_line(
    tmp_path: Path, text: str | None, begins: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # MOD-5, D73
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "bad.json").write_text(text, "utf-8")
    ended = command(capsys, "modular", "bad.json")
    assert (ended.code, ended.out) == (1, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(begins)


@pytest.mark.parametrize("words", [[], ["a.json", "b.json"], ["migrate"], ["migrate", "a", "b"]])
def test_without_its_argument_it_ends_with_1_and_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """MOD-1."""
    ended = command(capsys, "modular", *words)
    assert (ended.code, ended.out) == (1, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("[error] ")


def test_it_has_a_version_and_a_help(capsys: pytest.CaptureFixture[str]) -> None:  # MOD-1
    assert command(capsys, "modular", "--version").code == 0
    assert "migrate" in command(capsys, "modular", "--help").out


# ---------------------------------------------------------------------- migrate


def ordinary(tmp_path: Path) -> Path:
    path = tmp_path / "client.json"
    servers = {"one": {"command": "npx", "args": ["-y", "x"]}, "b=c": {"url": "https://example.com/mcp"}}
    path.write_text(json.dumps({"mcpServers": servers, "theme": "dark"}), "utf-8")
    return path


def test_migrating_unattended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # MOD-2, MOD-16, MOD-17, MOD-19
    monkeypatch.chdir(tmp_path)
    path = ordinary(tmp_path)
    ended = command(capsys, "modular", "migrate", path, "--yes", "--description", "b=c=Its x=y")
    assert (ended.code, ended.out) == (0, "")
    assert [line[:7] for line in ended.err.splitlines()] == ["[info] "] * 3
    new = json.loads((tmp_path / "modular-mcp.json").read_text("utf-8"))
    described = {name: entry["description"] for name, entry in new["mcpServers"].items()}
    assert described == {"one": "Tools of one", "b=c": "Its x=y"}
    after = json.loads(path.read_text("utf-8"))
    assert after["theme"] == "dark"
    proxy = after["mcpServers"]["modular-mcp"]
    assert proxy["args"][-2:] == ["modular", str(tmp_path / "modular-mcp.json")]
    assert (tmp_path / "client.json.bak").exists()
    again = command(capsys, "modular", "migrate", tmp_path / "client.json.bak", "--yes")
    assert again.code == 1
    assert "--force" in again.err
    output = tmp_path / "sub" / "x.json"
    missing = command(capsys, "modular", "migrate", tmp_path / "client.json.bak", "--yes", "-o", output)
    assert missing.code == 1
    assert "cannot be written" in missing.err


@pytest.mark.parametrize("description", ["two=x", "one", "one=", "one=  "])
def test_a_description_of_nobody_is_refused(
    tmp_path: Path, description: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = command(capsys, "modular", "migrate", ordinary(tmp_path), "--yes", "--description", description)
    assert ended.code == 1
    assert "NAME=TEXT" in ended.err
    assert not (tmp_path / "modular-mcp.json").exists()


def test_descriptions_are_asked_for_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """MOD-15: the prompt shows name, type and command or address; an empty line is asked again."""
    path = ordinary(tmp_path)
    monkeypatch.chdir(tmp_path)
    terminal, ours = pty.openpty()
    try:
        with open(ours, encoding="utf-8") as keyboard:  # noqa: PTH123  the number of an open file, no path
            monkeypatch.setattr(sys, "stdin", keyboard)
            os.write(terminal, "\n  \nThe first 一\nThe second\n".encode())
            ended = command(capsys, "modular", "migrate", path, "-o", "new.json")
    finally:
        os.close(terminal)
    assert ended.code == 0
    shown = ended.out + ended.err
    assert shown.count("one (stdio: npx -y x)") == 3
    assert shown.count("b=c (http: https://example.com/mcp)") == 1
    entries = json.loads((tmp_path / "new.json").read_text("utf-8"))["mcpServers"]
    assert [entry["description"] for entry in entries.values()] == ["The first 一", "The second"]


def test_where_nobody_answers_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ordinary(tmp_path)
    before = path.read_bytes()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    ended = command(capsys, "modular", "migrate", path)
    assert ended.code == 1
    assert "--yes" in ended.err
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["client.json"]
