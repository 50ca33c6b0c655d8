"""What the soak adds to a home: plugins of every kind, work for them, and what must be true of it in the end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.conversations import CHAT, Client, Conversation, WrongAnswerError, asked, text_of_completion

SETTING = "VarSoak"
DUE_SECONDS = 2
"""A task is put off by so much; the schedule counts in whole seconds."""

EDIT_SECONDS = 20.0
"""Longest time until an edited setting is in force."""

BURST = 200
"""Streamed turns that call a tool at the same moment."""

_JSON_FOLDERS = ("VCPTimedContacts", "VCPTimedResults", "VCPAsyncResults", ".vcp/callbacks", ".vcp/static_values")

KEEPER = """
import json, os, sys
name = json.loads(sys.stdin.read())["name"]
file = os.open(os.path.join(os.environ["PROJECT_BASE_PATH"], "effects.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(file, (name + "\\n").encode())
print(json.dumps({"status": "success", "result": name}))
"""

_LATER = """
import json, os, sys, time, urllib.request
name = json.loads(sys.stdin.read())["name"]
print(json.dumps({"status": "success", "result": {"task_id": name}}), flush=True)
time.sleep(0.2)
address = "/".join((os.environ["CALLBACK_BASE_URL"], "SoakLater", name))
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
request = urllib.request.Request(address, json.dumps({"message": name}).encode())
with opener.open(request, timeout=30) as answer:
    if answer.status == 200:
        place = os.path.join(os.environ["PROJECT_BASE_PATH"], "acknowledged.log")
        file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, (name + "\\n").encode())
"""

_TICK = "import time\nprint('it is', int(time.time()))\n"

INSIDE = """
import asyncio

class Plugin:
    async def call(self, call, context):
        await asyncio.sleep(0.01)
        return {"name": call.arguments["name"]}

    async def process(self, messages, config):
        return messages

def create(context):
    return Plugin()
"""

PROCESS = {"entryPoint": {"type": "python", "command": "python main.py", "interpreter": "server"}}
INSIDE_PLUGIN: Mapping[str, Any] = {
    "pluginType": "hybridservice",
    "entryPoint": {"type": "python", "script": "plugin.py"},
    "communication": {"protocol": "direct", "timeout": 20_000},
}
_PLUGINS: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = (
    ("SoakKeeper", "main.py", KEEPER, {"pluginType": "synchronous", **PROCESS}),
    ("SoakLater", "main.py", _LATER, {"pluginType": "asynchronous", **PROCESS}),
    ("SoakTick", "main.py", _TICK, {"pluginType": "static", "refreshIntervalCron": "20 * * * * *", **PROCESS}),
    ("SoakInside", "plugin.py", INSIDE, INSIDE_PLUGIN),
)


class Workshop:
    """One home's plugins and the conversations that put them to work; it remembers what the server acknowledged.

    ``begun`` has an event for each kind of work during which the server may be killed: a task that becomes due, a
    callback, a setting that is being reloaded.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._edits = 0
        self._editing = asyncio.Lock()
        self.tasks: set[str] = set()
        self.further: dict[str, str] = {}
        """Settings that are saved with the next edit."""
        self.begun = {name: asyncio.Event() for name in ("schedule", "callback", "reload")}
        for name, file, source, manifest in _PLUGINS:
            write_plugin(home, name, file, source, manifest)

    async def put_off(self, client: Client, number: int) -> None:
        """A call that the schedule makes later."""
        name = unique_name("task", number)
        due = datetime.fromtimestamp(int(time.time()) + DUE_SECONDS, UTC).isoformat()
        call = {"tool_name": "SoakKeeper", "arguments": {"name": name}}
        body = {"schedule_time": due, "task_id": name, "tool_call": call}
        async with client.post(body, "/v1/schedule_task") as response:
            if response.status != 200:
                raise WrongAnswerError(f"a task got status {response.status}: {(await response.text())[:200]}")
        self.tasks.add(name)
        await asyncio.sleep(DUE_SECONDS - 1)  # so that the kill comes about when it is due
        self.begun["schedule"].set()

    async def work_behind(self, client: Client, number: int) -> None:
        """A background plugin, whose result comes by a callback."""
        await self._tool(client, "SoakLater", unique_name("later", number))
        self.begun["callback"].set()

    async def work_inside(self, client: Client, number: int) -> None:
        """A plugin in the server."""
        await self._tool(client, "SoakInside", unique_name("inside", number))

    async def edit(self, client: Client, number: int) -> None:
        """A person saves the settings; soon a prompt has the new value."""
        async with self._editing:
            self._edits += 1
            wanted = self._edits
            await asyncio.to_thread(self._save, wanted)
            self.begun["reload"].set()
        async with asyncio.timeout(EDIT_SECONDS):
            while await self.value(client) < wanted:  # noqa: ASYNC110  only an answer tells
                await asyncio.sleep(0.1)

    def _save(self, value: int) -> None:
        path = self._home / "config.env"
        saved = {SETTING, *self.further}
        lines = [line for line in path.read_text("utf-8").splitlines() if line.partition("=")[0] not in saved]
        lines += [f"{name}={setting}" for name, setting in self.further.items()]
        beside = self._home / ".config.env.saving"
        beside.write_text("\n".join([*lines, f"{SETTING}=soak-{value}-value", ""]), encoding="utf-8")
        beside.replace(path)

    async def value(self, client: Client) -> int:
        """The setting as prompts have it now."""
        body = asked("Show the prompt", stream=False)
        body["messages"] = [{"role": "system", "content": "{{" + SETTING + "}}"}, *messages_of(body)]
        async with client.post(body, CHAT) as response:
            said = text_of_completion(await response.json())
        found = re.search(r"soak-(\d+)-value", said)
        return int(found[1]) if found else 0

    async def _tool(self, client: Client, tool: str, name: str) -> None:
        status, said = await human_tool(client, tool, name=name)
        if status != 200 or name not in said:
            raise WrongAnswerError(f"{tool} got status {status}: {said[:200]}")

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """Everything that clients do here."""
        return (self.put_off, self.work_behind, self.work_inside, self.edit)

    @property
    def waiting(self) -> list[Path]:
        """Tasks that are not done yet."""
        folder = self._home / "VCPTimedContacts"
        return [*folder.glob("*.json"), *(folder / ".running").glob("*.json")]

    @property
    def counts(self) -> str:
        """How much of everything there was."""
        acknowledged = len(lines_of(self._home / "acknowledged.log"))
        effects = len(lines_of(self._home / "effects.log"))
        return f"{len(self.tasks)} tasks put off, {effects} ran; {acknowledged} callbacks; {self._edits} edits"

    def faults(self) -> list[str]:
        """Files that are not whole, tasks that ran twice, results that were lost."""
        faults = []
        for folder in _JSON_FOLDERS:
            for path in (self._home / folder).rglob("*.json"):
                try:
                    json.loads(path.read_bytes())
                except FileNotFoundError:
                    continue  # moved on since it was listed
                except ValueError as error:
                    faults.append(f"not whole: {folder}/{path.name}: {error}")
        runs = Counter(lines_of(self._home / "effects.log"))
        faults += [f"{name} ran {count} times" for name, count in runs.items() if count > 1]
        for name in lines_of(self._home / "acknowledged.log"):
            path = self._home / "VCPAsyncResults" / f"SoakLater-{name}.json"
            if not path.is_file() or name not in path.read_text("utf-8"):
                faults.append(f"the result of {name} was acknowledged and is lost")
        return faults

    def lost_tasks(self) -> list[str]:
        """Tasks that were acknowledged and of which nothing tells how they ended; none may wait any more.

        A result tells it, and so does ``failed/``: a kill between the two leaves a failed task without its result.
        """
        folders = (self._home / "VCPTimedResults", self._home / "VCPTimedContacts" / "failed")
        told = "".join(path.read_text("utf-8") for folder in folders for path in folder.glob("*.json"))
        return sorted(name for name in self.tasks if name not in told)


def messages_of(body: Mapping[str, object]) -> Iterable[object]:
    """The messages of a chat body."""
    messages = body["messages"]
    assert isinstance(messages, list)
    return messages


def write_plugin(home: Path, name: str, file: str, source: str, manifest: Mapping[str, Any]) -> None:
    """A plugin of one file."""
    folder = home / "Plugin" / name
    folder.mkdir(parents=True)
    (folder / file).write_text(source, encoding="utf-8")
    content = {"name": name, "displayName": name, **manifest}
    (folder / "plugin-manifest.json").write_text(json.dumps(content), encoding="utf-8")


async def human_tool(client: Client, tool: str, /, **fields: str) -> tuple[int, str]:
    """Status and text of the answer to a person's call."""
    written = "".join(f",\n{key}:「始」{value}「末」" for key, value in fields.items())
    block = f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」{tool}「末」{written}\n<<<[END_TOOL_REQUEST]>>>"
    headers = {**client.headers, "Content-Type": "text/plain"}
    async with client.session.post(client.address + "/v1/human/tool", data=block.encode(), headers=headers) as response:
        return response.status, await response.text()


def unique_name(kind: str, number: int) -> str:
    """A name that no other call has."""
    return f"{kind}-{number}-{os.urandom(4).hex()}"


def lines_of(path: Path) -> list[str]:
    """Whole lines of a file, none when it is not there."""
    return path.read_text("utf-8").split("\n")[:-1] if path.is_file() else []
