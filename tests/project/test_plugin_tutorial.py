"""``docs/plugins.md``: every file in it is written, every command in it is run, every output in it is compared, and a
real server does with the plugins what the text says.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import Access
from app.plugins import environment, manifest
from tests.cli.commands import command
from tests.plugins.modules import call
from tests.program import ROOT, Program, started
from tests.server import Running, call_text, run, running
from tests.waiting import until

TUTORIAL = ROOT / "docs" / "plugins.md"
TEXT = TUTORIAL.read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, what stands behind it in the first line, its text."""

    language: str
    label: str
    text: str


def blocks() -> list[Block]:
    return [Block(*(part or "" for part in match)) for match in _BLOCK.findall(TEXT)]


def examples() -> Iterator[tuple[str, str]]:
    """Each command with the output that stands below it."""
    for block, output in itertools.pairwise(blocks()):
        if block.label == "run":
            assert output.label == "output", block.text
            yield block.text.strip(), output.text.strip()


def write_files(home: Path) -> list[str]:
    """Each file that the tutorial prints; the name stands behind the language."""
    names = []
    for block in blocks():
        if block.label.startswith("file="):
            names.append(block.label.removeprefix("file="))
            path = home / names[-1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    return names


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Program]]:
    """The server that a reader has running, and its home."""
    home = tmp_path_factory.mktemp("tutorial")
    write_files(home)
    with started("serve", "--port", "0", cwd=home) as program:
        yield home, program


@pytest.mark.parametrize(("words", "output"), list(examples()), ids=lambda text: text.splitlines()[0][:40])
def test_every_command_of_the_tutorial_gives_the_output_below_it(
    server: tuple[Path, Program],
    words: str,
    output: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, program = server
    monkeypatch.chdir(home)
    name, *arguments = shlex.split(words)
    assert name == "vcp"
    done = command(capsys, *arguments)
    assert (done.code, done.err) == (0, ""), program.logged
    pattern = ".+".join(re.escape(part) for part in json.dumps(json.loads(output), ensure_ascii=False).split("…"))
    assert re.fullmatch(pattern, json.dumps(json.loads(done.out), ensure_ascii=False)), done.out


def test_every_block_of_the_tutorial_is_a_file_or_is_run_or_is_compared() -> None:
    loose = [block for block in blocks() if not block.label]
    assert [(block.language, block.text[:22]) for block in loose] == [  # parts of an answer, not a whole one
        ("json", '{"status": "success", '),
        ("json", '{"status": "error", "c'),
    ]


def test_every_file_of_the_tutorial_is_whole_and_written_once(tmp_path: Path) -> None:
    names = write_files(tmp_path)
    assert len(names) == len(set(names)) >= 18
    assert {Path(name).suffix for name in names} == {".json", ".py", ".env"}
    for name in names:
        text = (tmp_path / name).read_text(encoding="utf-8")
        if name.endswith(".json"):
            json.loads(text)
        elif name.endswith(".py"):
            compile(text, name, "exec")


def test_the_tutorial_has_an_example_of_every_type_of_plugin(tmp_path: Path) -> None:
    manifests = [json.loads((tmp_path / name).read_text()) for name in write_files(tmp_path) if name.endswith(".json")]
    assert {content["pluginType"] for content in manifests} == manifest.PLUGIN_TYPES


async def prompt(server: Running, up: ScriptedUpstream, text: str) -> str:
    """What becomes of a system text on its way to the model; what the preprocessors add stands before it."""
    await server.chat({"role": "system", "content": text}, "hi")
    sent: str = up.bodies[-1]["messages"][1]["content"]
    return sent


def test_the_plugins_do_in_chats_and_at_routes_what_the_tutorial_says(tmp_path: Path) -> None:
    write_files(tmp_path)
    diary = tmp_path / "dailynote" / "Nova" / "2025-01-01-10_00_00.txt"
    diary.parent.mkdir(parents=True)
    diary.write_text("[2025-01-01] - Nova\nThe user likes tea.", encoding="utf-8")

    def answer(request: Any) -> Any:
        return say(call_text("WordCount") if request.json["messages"][-1]["content"] == "count" else "ok")

    async def main() -> None:
        async with (
            ScriptedUpstream(answer) as up,
            running(tmp_path, up.base_url, config=("RunStaticPlugins=true",)) as server,
        ):
            await comes_later(server, tmp_path)
            await inside(server, up)
            await in_the_background(server, up, tmp_path)
            await until(
                lambda: any(state.plugin == "DailyTip" and state.last_run for state in server.services.statics.states())
            )
            await until(lambda: not any(state.running for state in server.services.statics.states()))
            assert re.search(r"^Today: Tip: \w[\w ]+\.$", await prompt(server, up, "Today: {{DailyTip}}"))
            await until(lambda: list((tmp_path / "VCPTimedResults").glob("*.json")))
            (result,) = (tmp_path / "VCPTimedResults").glob("*.json")
            assert "1 rolled, sum" in result.read_text(encoding="utf-8")

    run(main())


async def comes_later(server: Running, home: Path) -> None:
    """The chapter on calls at a later time: nothing runs now, and the task is a file."""
    due = datetime.now(ZoneInfo(server.services.settings.default_timezone)) + timedelta(seconds=2)
    when = due.strftime("%Y-%m-%d-%H:%M:%S")
    receipt = await call(server.services, "Dice", {"sides": "6", "count": "1", "timely_contact": when})
    assert isinstance(receipt.structured, dict)
    assert receipt.structured["status"] == "scheduled"
    assert (home / "VCPTimedContacts" / f"{receipt.structured['task_id']}.json").is_file()


async def inside(server: Running, up: ScriptedUpstream) -> None:
    """The chapter on plugins inside the server: a tool, a preprocessor, a placeholder, a route."""
    assert server.services.in_process.problems() == ()
    greeted = await call(server.services, "Doorman", {"who": "Nova"})
    assert greeted.structured == {"said": "Hello, Nova!"}
    for count in (1, 2):
        answered = await server.client.post("/api/plugins/Counter/count")
        assert answered.json() == {"count": count}
    await server.chat({"role": "system", "content": "{{Length::four}} {{VCPDoorman}}"})
    polite, mine = up.bodies[-1]["messages"]
    assert re.fullmatch(r"Be polite\. It is \d\d:\d\d:\d\d\.", polite["content"])
    assert mine["content"].startswith("4 ")
    assert "Welcomes somebody" in mine["content"]


async def in_the_background(server: Running, up: ScriptedUpstream, home: Path) -> None:
    """The chapter on background plugins: the model has the placeholder at once, and the result later."""
    await server.chat("count")
    told = json.dumps(up.bodies[-1]["messages"][-1])
    placeholder, task = re.findall(r"(\{\{VCP_ASYNC_RESULT::WordCount::(count-[0-9a-f]{8})\}\})", told)[0]
    await until((home / "VCPAsyncResults" / f"WordCount-{task}.json").exists)
    assert "There are 7 words in the diaries." in await prompt(server, up, f"Result: {placeholder}")


def test_the_tutorial_names_every_access_there_is() -> None:
    assert all(f"`Access.{access.name}`" in TEXT for access in Access)


def test_the_tutorial_names_every_field_of_a_manifest_that_has_an_effect() -> None:
    """Each constant under which ``plugins/manifest.py`` looks something up."""
    source = Path(manifest.__file__).read_text(encoding="utf-8")
    looked_up = set(re.findall(r'(?:\.get|self\._required_text)\("(\w+)"', source))
    looked_up |= set(re.findall(r'self\._(?:text|flag|object|list)\([\w.]+, "(\w+)"', source))
    assert {"name", "communication", "refreshIntervalCron", "typed", "eager"} <= looked_up
    described = TEXT.partition("## All fields of a manifest")[2]
    without_effect = {"hasApiRoutes"}
    wanted = sorted(looked_up - without_effect)
    assert [name for name in wanted if not re.search(rf"`(?:\w+\.)*{name}[`.]", described)] == []


def test_the_tutorial_names_every_variable_that_a_process_gets() -> None:
    source = Path(environment.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r'environment\["(\w+)"\]', source)) | {
        environment.AUTH_CODE,
        environment.REQUEST_IP,
        environment.CALLBACK_BASE_URL,
        environment.CALLBACK_PLUGIN,
        environment.CALL_DEPTH_VARIABLE,
    }
    table = TEXT.partition("## What a process gets")[2]
    assert [name for name in sorted(named) if f"`{name}`" not in table] == []
