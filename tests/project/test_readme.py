"""Everything in the README that can be run is run, in a fresh home, as it stands there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.cli import main
from app.config.approval_rules import read_rules
from app.config.snapshot import load
from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from tests.cli.commands import command
from tests.program import LONGEST, ROOT, Program, environment, started
from tests.server import ECHO, call_text, run, running, write_plugin

READMES = ("README.md", "README.zh-CN.md")
ADDRESS = "http://127.0.0.1:6005"
"""Where the README's server listens; here it is a free port, and nothing else in a text is changed."""


def blocks(name: str, language: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block_with(name: str, language: str, words: str) -> str:
    (found,) = [block for block in blocks(name, language) if words in block]
    return found


@dataclass(frozen=True, slots=True)
class Terminal:
    """A second terminal in the folder where the server runs."""

    home: Path
    server: Program

    def run(self, *command: str, text: str) -> str:
        """What the command prints when it is given this text of the README as its last argument."""
        here = text.replace(ADDRESS, self.server.base_url.removesuffix("/v1"))
        proxies = {name: value for name, value in os.environ.items() if name.lower() == "no_proxy"}
        done = subprocess.run(
            (*command, here),
            cwd=self.home,
            env=environment({**proxies, "HOME": str(self.home)}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=LONGEST,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    home = tmp_path_factory.mktemp("a checkout 目录")
    shutil.copy(ROOT / "config.env.example", home)
    keys = {
        "Image_Key": "key-of-pictures",
        "File_Key": "key-of-files",
        "AdminUsername": "me",
        "AdminPassword": "a-password",
    }
    with started("serve", "--home", ".", "--port", "0", cwd=home, environ=keys) as server:
        yield Terminal(home, server)


def content(answer: str) -> str:
    (choice,) = json.loads(answer)["choices"]
    assert choice["finish_reason"] == "stop"
    return str(choice["message"]["content"])


def shows_the_sum(answer: str) -> None:
    """An answer in which a tool was called."""
    called, end, rest = content(answer).partition("<<<[END_TOOL_REQUEST]>>>")
    assert "SciCalculator" in called
    assert end
    assert "84" in rest


def shows_both_sums_in_a_stream(answer: str) -> None:
    events = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    deltas = [choice["delta"] for event in events[:-1] for choice in json.loads(event)["choices"]]
    rest = "".join(delta.get("content") or "" for delta in deltas).rpartition("<<<[END_TOOL_REQUEST]>>>")[2]
    assert "1024" in rest
    assert "51" in rest


def shows_the_result(answer: str) -> None:
    assert "1028" in json.dumps(json.loads(answer))


def lists_the_model(answer: str) -> None:
    assert "vcp-demo" in [model["id"] for model in json.loads(answer)["data"]]


CURL: dict[str, Callable[[str], None]] = {
    '"content": "What is 12*7?"': shows_the_sum,
    '"stream": true': shows_both_sums_in_a_stream,
    "sqrt(16) + 2**10「末」": shows_the_result,
    "/v1/models": lists_the_model,
    "/tools/SciCalculator": shows_the_result,
}
"""What tells each of the README's curl commands, and what it must show."""

ELSEWHERE = (
    "make run\n",
    "make test\n",
    "cp config.env.example config.env\n",
    ".venv/bin/vcp mcp-check files\n",
    ".venv/bin/vcp mcp --print-config cursor\n",
)
"""Blocks of shell that other tests run."""

TOGETHER = NODE_KEY, NODE, WATCH, WRITE_NOTE, OWN_NOTE, REMEMBER, EXPLAIN = (
    *("vcp keys node", "vcp node --home", "-m websockets"),
    *("tool_name:「始」DailyNote「末」", "cat > dailynote/", "日记本:0]]", "vcp memory explain"),
)
"""Blocks of shell that go on running, or that belong together."""


@pytest.mark.parametrize("name", READMES)
def test_every_block_of_shell_is_run_by_a_test(name: str) -> None:
    others = [block for block in blocks(name, "sh") if block not in ELSEWHERE]
    assert len(others) == len(CURL) + len(TOGETHER)
    for words in CURL:
        assert ADDRESS in block_with(name, "sh", words)
    for words in TOGETHER:
        assert block_with(name, "sh", words)


@pytest.mark.external
@pytest.mark.parametrize("words", CURL)
@pytest.mark.parametrize("name", READMES)
def test_a_curl_command_does_what_it_is_shown_for(terminal: Terminal, name: str, words: str) -> None:
    CURL[words](terminal.run("/bin/sh", "-c", text=block_with(name, "sh", words)))


@pytest.mark.external
def test_the_line_that_the_server_prints_works_when_it_is_pasted(terminal: Terminal) -> None:
    shows_the_sum(terminal.run("/bin/sh", "-c", text=terminal.server.lines[-1].replace("curl ", "curl -s ", 1)))


def test_the_tool_command_does_what_the_curl_command_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in READMES]
    (command,) = {found for text in texts for found in re.findall(r"`\.venv/bin/vcp (tool .+?)`", text)}
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command))
    assert ended.value.code == 0
    shows_the_result(capsys.readouterr().out)


def test_the_python_example_prints_the_answer(terminal: Terminal) -> None:
    (example,) = {example for name in READMES for example in blocks(name, "python")}
    printed = terminal.run(sys.executable, "-c", text=example)
    assert "84" in printed.partition("<<<[END_TOOL_REQUEST]>>>")[2]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("remember that I like tea", "DailyNoteWrite"),
        ("记住我喜欢喝茶", "DailyNoteWrite"),
        ("missing tool", "NoSuchTool"),
        ("think", "<think>"),
        ("show prompt", "No system message reached me."),
        ("提示词", "我没有收到系统消息"),
    ],
)
def test_the_demo_model_understands_what_the_readme_says_to_it(terminal: Terminal, said: str, shown: str) -> None:
    for name in READMES:
        assert f"`{said}`" in (ROOT / name).read_text(encoding="utf-8")
    body = {"model": "vcp-demo", "messages": [{"role": "user", "content": said}]}
    headers = {"Authorization": f"Bearer {terminal.server.key}"}
    url = f"{terminal.server.base_url}/chat/completions"
    assert shown in content(httpx.post(url, json=body, headers=headers, timeout=60, trust_env=False).text)
    if shown == "DailyNoteWrite":
        diaries = [path.read_text(encoding="utf-8") for path in (terminal.home / "dailynote").glob("*/*.txt")]
        assert any(words in diary for words in ("I like tea", "喜欢喝茶") for diary in diaries)


@pytest.mark.parametrize(
    ("note", "recall", "show"),
    [("remember that I like green tea", "I like green tea", "show prompt"), ("记住我喜欢绿茶", "我喜欢绿茶", "提示词")],
)
def test_what_the_demo_model_was_told_to_remember_is_in_the_next_prompt(
    terminal: Terminal, note: str, recall: str, show: str
) -> None:
    assert all("`{{Demo日记本}}`" in (ROOT / name).read_text(encoding="utf-8") for name in READMES)
    headers = {"Authorization": f"Bearer {terminal.server.key}"}
    url = f"{terminal.server.base_url}/chat/completions"
    answers = []
    for messages in (
        [{"role": "user", "content": note}],
        [{"role": "system", "content": "What you know: {{Demo日记本}}"}, {"role": "user", "content": show}],
    ):
        body = {"model": "vcp-demo", "messages": messages}
        answers.append(content(httpx.post(url, json=body, headers=headers, timeout=60, trust_env=False).text))
    assert recall in answers[1]


@pytest.mark.external
def test_the_first_notes_are_remembered_by_meaning_without_a_key(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    def shell(words: str) -> str:
        return terminal.run("/bin/sh", "-c", text=block_with("README.md", "sh", words))

    written = json.loads(shell(WRITE_NOTE))
    assert "Diary saved" in str(written), written
    assert shell(OWN_NOTE) == ""
    until = time.monotonic() + LONGEST
    while "oolong" not in (answer := content(shell(REMEMBER))):
        assert time.monotonic() < until, answer
    assert "轮胎" not in answer
    explain = shlex.split(block_with("README.md", "sh", EXPLAIN))
    while "轮胎" not in (told := command(capsys, *explain[1:], "--home", terminal.home)).out:
        assert (told.code, time.monotonic() < until) == (0, True), told
    own, others = (told.out.index(words) for words in ("轮胎", "oolong"))
    assert own < others, "the note about the bicycle comes first, though it is in another language"


def test_the_commands_for_a_node_bring_its_tools(terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    first = shlex.split(block_with("README.md", "sh", NODE_KEY))
    made = command(capsys, *first[1:], "--home", terminal.home)
    assert made.code == 0
    init, node = block_with("README.md", "sh", NODE).splitlines()
    folder = terminal.home / "workshop"
    assert command(capsys, *shlex.split(init.replace("~/workshop", shlex.quote(str(folder))))[1:]).code == 0
    write_plugin(folder, "Echo", ECHO)
    here = node.replace("ADDRESS:6005", terminal.server.base_url.split("/")[2])
    key, _, *words = shlex.split(here.replace("~/workshop", shlex.quote(str(folder))))
    assert key == "VCP_KEY=KEY"
    with started(*words, cwd=terminal.home, environ={"VCP_KEY": made.out.strip()}, last_line="已连接"):
        listed = command(capsys, "nodes", "--home", terminal.home)
        assert "workshop" in listed.out
        assert "tools (1): Echo" in listed.out


def test_the_command_that_watches_the_log_is_told_of_a_call(terminal: Terminal) -> None:
    text = block_with("README.md", "sh", WATCH).replace(".venv/bin/python", shlex.quote(sys.executable))
    here = text.replace(ADDRESS.removeprefix("http://"), terminal.server.base_url.split("/")[2])
    with subprocess.Popen(
        ("/bin/sh", "-c", here),
        cwd=terminal.home,
        env=environment({"no_proxy": "*", "HOME": str(terminal.home)}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as watching:
        try:
            assert watching.stdout is not None
            assert watching.stdin is not None
            assert any("connection_ack" in line for line in watching.stdout)
            assert status_of_a_call(terminal) == 200
            assert any("vcp_log" in line and "SciCalculator" in line for line in watching.stdout)
            watching.stdin.close()  # Ctrl-D
            assert watching.wait(LONGEST) == 0
        finally:
            watching.kill()


def status_of_a_call(terminal: Terminal) -> int:
    """Call a tool as a person does; the status of the answer."""
    return httpx.post(
        f"{terminal.server.base_url}/human/tool",
        content=call_text("SciCalculator", expression="6*7").encode(),
        headers={"Authorization": f"Bearer {terminal.server.key}", "Content-Type": "text/plain"},
        timeout=60,
        trust_env=False,
    ).status_code


@pytest.mark.parametrize("name", READMES)
def test_the_rule_of_the_readme_makes_calls_of_the_calculator_wait(name: str) -> None:
    (content,) = re.findall(r'`(\{"enabled".+?\})`', (ROOT / name).read_text(encoding="utf-8"))
    rules, problems = read_rules(content.encode())
    assert problems == ()
    assert rules.need(["SciCalculator"], []) is not None
    assert rules.need(["DailyNote"], []) is None


@pytest.mark.parametrize("name", READMES)
def test_the_settings_for_a_real_model_are_all_that_is_needed(tmp_path: Path, name: str) -> None:
    shutil.copy(ROOT / "config.env.example", tmp_path)
    assert "cp config.env.example config.env\n" in blocks(name, "sh")
    subprocess.run(("/bin/sh", "-c", "cp config.env.example config.env"), cwd=tmp_path, check=True)
    (lines,) = blocks(name, "ini")
    with (tmp_path / "config.env").open("a", encoding="utf-8") as config:
        config.write(lines)
    loaded = load(tmp_path, {})
    assert loaded.problems == ()
    settings = loaded.settings
    assert (settings.api_url, settings.api_key, settings.key) == (
        "https://api.example.com",
        "the-key-of-that-service",
        "a-long-random-text-of-your-own",
    )


@pytest.mark.parametrize("name", READMES)
def test_the_agent_of_the_readme_tells_the_model_what_it_may_do(tmp_path: Path, name: str) -> None:
    async def test() -> None:
        (tmp_path / "Agent").mkdir()
        (tmp_path / "Agent" / "Nova.txt").write_text(block_with(name, "text", "You are Nova"), encoding="utf-8")
        agents = block_with(name, "json", "Nova")
        (tmp_path / "agent_map.json").write_text(agents, encoding="utf-8")
        diary = tmp_path / "dailynote" / "Nova"
        diary.mkdir(parents=True)
        (diary / "2025-01-01-10_00_00.txt").write_text("[2025-01-01] - Nova\nThe user likes tea.", encoding="utf-8")
        script = [say(call_text("SciCalculator", expression="6*7")), say("done")]
        async with (
            ScriptedUpstream(script) as upstream,
            running(tmp_path, upstream.base_url) as server,
        ):
            await server.chat({"role": "system", "content": "{{Nova}}"}, "hello")
            told = upstream.bodies[0]["messages"][0]["content"]
            assert told.startswith("You are Nova. Today is ")
            assert "The user likes tea." in told
            assert "SciCalculator" in told
            assert "{{" not in told
            assert "42" in json.dumps(upstream.bodies[1]["messages"][-1])

    run(test())


def section(name: str, number: int) -> str:
    """The text of a section, counted from the end of the document; its title is in the document's language."""
    return (ROOT / name).read_text(encoding="utf-8").split("\n## ")[-number]


@pytest.mark.parametrize("name", READMES)
def test_every_plugin_that_comes_with_the_server_is_listed(name: str) -> None:
    (table,) = [
        text for text in (ROOT / name).read_text(encoding="utf-8").split("\n## ") if "| SciCalculator |" in text
    ]
    listed = [
        plugin for row in re.findall(r"^\| ([^|`]+) \|", table, re.MULTILINE) for plugin in re.split("[,、] ?", row)
    ]
    shipped = {path.parent.name for path in ROOT.glob("Plugin/*/plugin-manifest.json")}
    assert set(listed[1:]) - {"---"} == shipped


@pytest.mark.parametrize("name", READMES)
def test_every_document_is_linked(name: str) -> None:
    documents = {f"docs/{path.name}" for path in ROOT.glob("docs/*.md")}
    assert documents <= set(re.findall(r"\]\((docs/[a-z-]+\.md)\)", section(name, 2)))


@pytest.mark.parametrize("name", READMES)
def test_every_route_of_the_table_is_served_and_needs_the_key_unless_it_says_so(terminal: Terminal, name: str) -> None:
    (table,) = [text for text in (ROOT / name).read_text(encoding="utf-8").split("\n## ") if "/v1/interrupt`" in text]
    rows = re.findall(r"`(?:(GET|POST) )?(/[^`]+)`", table.partition("\n\n")[2])
    assert len(rows) >= 15
    with httpx.Client(base_url=terminal.server.base_url.removesuffix("/v1"), timeout=60, trust_env=False) as client:
        headers = {"Authorization": f"Bearer {terminal.server.key}"}
        served = client.get("/openapi.json", headers=headers).json()["paths"]
        for method, path in rows:
            here = path.replace("…", "x/y").replace("{id}", "x")
            stranger = client.request(method or "POST", here, headers={"X-Forwarded-For": "203.0.113.9"})
            assert (stranger.status_code == 401) is (path not in ("/healthz", "/readyz")), path
            fitting = [words for words in served if re.fullmatch(re.sub(r"\{\w+\}", ".+", words), here)]
            assert fitting or path.startswith("/pw=") or client.delete(here, headers=headers).status_code != 404, path
