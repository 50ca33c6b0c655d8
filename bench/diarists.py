"""What the soak has of memory: notes that people and tools write, change and delete, and prompts that remember them.

Meanwhile the embedder changes, its worker is killed, many notes come, move and go at once, and damage is looked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from bench.conversations import CHAT, Client, Conversation, WrongAnswerError, asked, text_of_completion
from bench.processes import PROC, offspring
from bench.workshop import Workshop, human_tool, messages_of, unique_name

NOTEBOOK = "Soak"
BOOKS = ("Soak", "Demo", "Soak-moved")
FAILED = "[RAG处理失败]"
SETTINGS = ("MemoryEmbedder=hashing", "MemoryEmbedderIdleSeconds=10", "KNOWLEDGEBASE_BATCH_WINDOW_MS=300")
EMBEDDERS = ("auto", "hashing")
"""In turn; the last one is quick, so that everything is embedded when the time is over."""

SEEN_SECONDS = 45.0
"""Longest time until a prompt remembers a note that was written, and no longer one that was deleted."""

CAUGHT_UP_SECONDS = 120.0
AT_ONCE = 40
REST_SECONDS = 4.0
DECLARATIONS = (
    "[[Soak日记本]]",
    "[[Soak|Demo日记本::Time::TagMemo]]",
    "《《Soak日记本》》",
    "<<Demo日记本::Truncate0.2>>",
    "[[Demo日记本:1.5::BM25::Expand]]",
    "{{Soak日记本::Last3}}",
    "[[Soak-moved|Soak日记本::Group::TimeDecay::Associate]]",
)


class Diarists:
    """The notes of one home, and who works with them; ``fault`` is told what went wrong."""

    def __init__(self, home: Path, workshop: Workshop, mark: str, fault: Callable[[str], None]) -> None:
        self._root = home / "dailynote"
        self._workshop = workshop
        self._mark = mark
        self._fault = fault
        self.heard: Counter[str] = Counter()

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """Everything that clients do here."""
        return (self.recall, self.write_and_forget, self.recall)

    @property
    def counts(self) -> str:
        """How much of everything there was."""
        return ", ".join(f"{count} {what}" for what, count in sorted(self.heard.items()))

    # ------------------------------------------------------------------ what clients do

    async def recall(self, client: Client, number: int) -> None:
        """A prompt with declarations of all forms; none of them may fail."""
        declaration = DECLARATIONS[number % len(DECLARATIONS)]
        said = await _prompt(client, declaration, f"What was said of note {number % 50}, yesterday or last week?")
        if FAILED in said or declaration in said:
            raise WrongAnswerError(f"{declaration} became {said[-200:]!r}")
        self.heard["declarations answered"] += 1

    async def write_and_forget(self, client: Client, number: int) -> None:
        """A note with a word of its own is remembered soon after it was written, by a tool or by a person's editor.

        It is changed, and in the end deleted: then nothing tells of it any more.
        """
        word = unique_name("zx", number).replace("-", "")
        path: Path | None = None
        text = f"{word} was here, note {number} is whole"
        if number % 2:
            note = {"command": "create", "maid": f"[{NOTEBOOK}]Demo", "Date": "2025-11-27"}
            status, told = await human_tool(client, "DailyNote", **note, Content=f"{text}\nTag: demo")
            if status != 200:
                raise WrongAnswerError(f"DailyNote got status {status}: {told[:200]}")
        else:
            path = self._root / NOTEBOOK / f"{word}.txt"
            await asyncio.to_thread(_save, path, f"[2025-11-27] - Demo\n{text}\nTag: demo\n")
        await self._until(client, word, word, there=True)
        if path is None:
            path = await asyncio.to_thread(self._with_word, word)
            if path is None:
                raise WrongAnswerError(f"the note with {word} is remembered and is not there")
        again = word + "changed"
        await asyncio.to_thread(_save, path, path.read_text("utf-8").replace(word, again))
        await self._until(client, again, again, there=True)
        await asyncio.to_thread(path.unlink)
        await self._until(client, again, again, there=False)
        self.heard["notes written, changed and deleted"] += 1

    async def _until(self, client: Client, question: str, word: str, *, there: bool) -> None:
        until = time.monotonic() + SEEN_SECONDS
        while True:
            said = await _prompt(client, f"[[{NOTEBOOK}日记本]]", f"What about {question}?")
            if (word in said) is there:
                return
            if time.monotonic() > until:
                wanted = "is not remembered" if there else "is remembered although it was deleted"
                raise WrongAnswerError(f"{word} {wanted}: {said[-300:]!r}")
            await asyncio.sleep(0.2)

    def _with_word(self, word: str) -> Path | None:
        for path in (self._root / NOTEBOOK).glob("*.txt"):
            with contextlib.suppress(FileNotFoundError):
                if word in path.read_text("utf-8"):
                    return path
        return None

    # ------------------------------------------------------------------ what happens while there is load

    async def trouble(self, pid: int, address: str, key: str, until: float, chance: random.Random) -> None:
        """Notes come, move and go in numbers, embedders change and are killed until the time has come."""
        async with aiohttp.ClientSession() as session:
            client = Client(session, address, key)
            changes = 0
            while time.monotonic() + REST_SECONDS < until:
                await asyncio.sleep(REST_SECONDS * chance.uniform(0.3, 1))
                changes += 1
                await asyncio.to_thread(self._many, changes)
                if changes % 3 == 0:
                    embedder = EMBEDDERS[changes // 3 % len(EMBEDDERS)]
                    self._workshop.further["MemoryEmbedder"] = embedder
                    await self._workshop.edit(client, changes)
                    self.heard["changes of the embedder"] += 1
                elif chance.random() < 0.5:
                    self._kill_worker(pid, chance)
            self._workshop.further["MemoryEmbedder"] = EMBEDDERS[-1]
            await self._workshop.edit(client, changes)
            await self.caught_up(client)

    def _many(self, number: int) -> None:
        """Many notes by an editor, moved as a folder, or deleted as one."""
        folder, moved = self._root / f"many-{number % 4}", self._root / BOOKS[-1] / f"{number % 4}"
        for one in range(AT_ONCE):
            text = f"[2025-10-{one % 28 + 1:02d}] - Demo\nnote {number * 100 + one} is whole\nTag: demo\n"
            _save(folder / f"{one}.txt", text)
        if number % 2:
            shutil.rmtree(moved, ignore_errors=True)
            moved.parent.mkdir(exist_ok=True)
            folder.rename(moved)
        elif number % 3 == 0:
            shutil.rmtree(folder)
        self.heard["notes by an editor"] += AT_ONCE

    def _kill_worker(self, pid: int, chance: random.Random) -> None:
        workers = []
        for child in offspring(pid, self._mark):
            with contextlib.suppress(OSError):
                if b"worker_program" in (PROC / str(child) / "cmdline").read_bytes():
                    workers.append(child)
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                self.heard["embedders killed"] += 1

    async def caught_up(self, client: Client) -> None:
        """Everything is in the index and has its vector, and the index agrees with itself and with the files."""
        until = time.monotonic() + CAUGHT_UP_SECONDS
        while True:
            status = await _get(client, "/v1/memory/status")
            vectors = status["vectors"]
            if not status["pending"] and vectors["ready"] and not vectors["pending"] and not vectors["building"]:
                break
            if time.monotonic() > until:
                self._fault(f"memory did not catch up: {str(status)[:600]}")
                return
            await asyncio.sleep(0.5)
        await self.check(client)

    async def check(self, client: Client) -> None:
        """The server's own check finds nothing."""
        async with client.post({"repair": False}, "/v1/memory/check") as response:
            found = await response.json()
        if response.status != 200 or found["faults"]:
            self._fault(f"the index is not sound: {str(found)[:400]}")
        self.heard["checks of the index"] += 1


async def _prompt(client: Client, declaration: str, question: str) -> str:
    """The system message as it reached the model."""
    body = asked(f"Show the prompt. {question}", stream=False)
    body["messages"] = [{"role": "system", "content": declaration}, *messages_of(body)]
    async with client.post(body, CHAT) as response:
        if response.status != 200:
            raise WrongAnswerError(f"status {response.status}: {(await response.text())[:200]}")
        return text_of_completion(await response.json())


async def _get(client: Client, path: str) -> Any:
    async with client.session.get(client.address + path, headers=client.headers) as response:
        return await response.json()


def _save(path: Path, text: str) -> None:
    """As an editor does: whole, by a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.saving")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
