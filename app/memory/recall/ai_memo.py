"""AIMemo: a model reads whole notebooks and says what of them helps (memory.md 5.6).

Files are packed into batches; a bounded number of batches is asked for at a time in the whole server. A batch that
fails costs only itself.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.memory.ranking.requests import RecallQuery
from app.memory.recall.ai_memo_reply import blocks_of, merged
from app.memory.recall.cache import AnswerCache, cache_key
from app.prompt.diaries import Notebooks
from app.prompt.files import contained, read_text
from app.protocol import recall_frames as frames
from app.protocol.ai_memo_texts import PROMPT, file_note
from app.protocol.recall_query import reference_tokens

log = logging.getLogger(__name__)

FIXED_TOKENS = 10_000
"""Set aside in each batch for the prompt and the question."""

MAX_BATCHES = 40
"""Of one request; the newest files are read, and the rest is said to be left out."""

MAX_PROMPT_BYTES = 256 * 1024
PRESETS = "memory/aimemo"
"""Folder of the home with a text file for each preset."""

_VARIABLE = re.compile(r"\{\{(knowledge_base|current_user_prompt|last_assistant_response|Date|Time)\}\}")

Ask = Callable[[str], Awaitable[str]]
"""Asks the model of AIMemo with one user message; the text of its answer. Raises VcpError."""


@dataclass(frozen=True, slots=True)
class AiMemoRules:
    """The settings of now. ``prompt_file`` is below the home and empty for our own prompt."""

    configured: bool
    at_once: int
    batch_tokens: int
    prompt_file: str


@dataclass(frozen=True, slots=True)
class AiMemoAnswer:
    """The text for the prompt, and how it came about. ``raw`` are the model's replies."""

    text: str
    notebooks: tuple[str, ...]
    files: int
    batches: int
    failed: int
    raw: tuple[str, ...] = ()
    left_out: int = 0
    from_cache: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of the corpus, with its heading."""

    text: str
    tokens: int


class AiMemo:
    """Answers for notebooks. ``generations`` tells of each notebook which state of it the index knows."""

    def __init__(
        self,
        ask: Ask,
        notebooks: Callable[[], Notebooks],
        home: Path,
        rules: Callable[[], AiMemoRules],
        cache: AnswerCache[AiMemoAnswer],
    ) -> None:
        self._ask = ask
        self._notebooks = notebooks
        self._home = home
        self._rules = rules
        self._cache = cache
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def configured(self) -> bool:
        """Whether there is a model to ask."""
        return self._rules().configured

    async def answer(self, names: Sequence[str], query: RecallQuery, preset: str, generations: object) -> AiMemoAnswer:
        """What the model finds in these notebooks."""
        prompt = await asyncio.to_thread(self._prompt, preset)
        key = cache_key("whole", tuple(names), query.user, query.assistant, query.now.date(), prompt, generations)
        kept = self._cache.get(key)
        if kept is not None:
            return AiMemoAnswer(
                kept.text, kept.notebooks, kept.files, kept.batches, 0, kept.raw, kept.left_out, from_cache=True
            )
        parts = await asyncio.to_thread(self._corpus, tuple(names))
        answer = await self._of(parts, tuple(names), query, prompt)
        if not answer.failed:
            self._cache.put(key, answer, len(answer.text) + sum(map(len, answer.raw)))
        return answer

    async def of_texts(
        self, fragments: Sequence[tuple[str, str, str]], names: Sequence[str], query: RecallQuery, preset: str
    ) -> AiMemoAnswer:
        """What the model finds in fragments, each with its notebook and file (``::AIMemo+``)."""
        prompt = await asyncio.to_thread(self._prompt, preset)
        parts = [_part(*fragment) for fragment in fragments]
        return await self._of(parts, tuple(names), query, prompt)

    async def _of(
        self, parts: Sequence[_Part], names: tuple[str, ...], query: RecallQuery, prompt: str
    ) -> AiMemoAnswer:
        batches = _batches(parts, max(1, self._rules().batch_tokens - FIXED_TOKENS))
        asked = batches[max(0, len(batches) - MAX_BATCHES) :]
        left_out = sum(len(batch) for batch in batches[: len(batches) - len(asked)])
        if left_out:
            log.warning("AIMemo reads at most %d batches; the %d oldest files are left out", MAX_BATCHES, left_out)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._batch(batch, query, prompt)) for batch in asked]
        replies = [task.result() for task in tasks]
        failed = sum(reply is None for reply in replies)
        if asked and failed == len(asked):
            raise RuntimeError("no batch of AIMemo was answered")
        found = merged([reply[1] for reply in replies if reply is not None], empty_corpus=not parts)
        text = frames.ai_memo_result(names, found)
        raw = tuple(reply[0] for reply in replies if reply is not None)
        return AiMemoAnswer(text, names, len(parts), len(asked), failed, raw, left_out)

    async def _batch(
        self, batch: Sequence[_Part], query: RecallQuery, prompt: str
    ) -> tuple[str, tuple[str, ...]] | None:
        """The model's reply and its blocks; None where there was none, which is logged."""
        corpus = frames.AI_MEMO_FILE_SEPARATOR.join(part.text for part in batch)
        values = {
            "knowledge_base": corpus,
            "current_user_prompt": query.user,
            "last_assistant_response": query.assistant or frames.AI_MEMO_NO_REPLY,
            "Date": query.now.date().isoformat(),
            "Time": query.now.strftime("%H:%M:%S"),
        }
        async with _Place(self):
            try:
                reply = await self._ask(filled(prompt, values))
            except Exception as error:  # the plugin boundary of a far model: one batch must not cost the others
                log.warning("a batch of AIMemo failed: %s", type(error).__name__, exc_info=True)
                return None
        return reply, await asyncio.to_thread(blocks_of, reply, corpus)

    def _prompt(self, preset: str) -> str:
        """The text of a preset, of the configured file, or our own. Blocks."""
        wanted = [(self._home / PRESETS, f"{preset}.txt")] if preset else []
        if self._rules().prompt_file:
            wanted.append((self._home, self._rules().prompt_file))
        for root, name in wanted:
            try:
                return read_text(contained(root, name), MAX_PROMPT_BYTES)
            except OSError as error:
                log.warning("AIMemo prompt '%s' cannot be read: %s", name, error.strerror)
        return PROMPT

    def _corpus(self, names: Sequence[str]) -> list[_Part]:
        """All files of the notebooks, oldest first. Blocks."""
        notebooks = self._notebooks()
        files = [(file, name) for name in names for file in notebooks.files(name) or ()]
        return [_part(name, file, notebooks.read_files([(name, file)], name)) for file, name in sorted(files)]


class _Place:
    """A place among the batches that are asked for at a time; the number is asked of the settings of now.

    Leaving waits for nothing, so a turn that is cancelled at any moment gives its place to the next.
    """

    def __init__(self, owner: AiMemo) -> None:
        self._owner = owner

    async def __aenter__(self) -> None:
        owner = self._owner
        while owner._running >= max(1, owner._rules().at_once):
            turn = asyncio.get_running_loop().create_future()
            owner._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # it was this one's turn: the next one's now
                elif turn in owner._waiting:
                    owner._waiting.remove(turn)
                raise
        owner._running += 1
        self._wake()  # the limit may have grown meanwhile

    async def __aexit__(self, *_: object) -> None:
        self._owner._running -= 1
        self._wake()

    def _wake(self) -> None:
        owner = self._owner
        while owner._waiting and owner._running < max(1, owner._rules().at_once):
            turn = owner._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


def filled(prompt: str, values: Mapping[str, str]) -> str:
    """The prompt with its variables in one pass; what a value says is never looked at again (D9)."""
    return _VARIABLE.sub(lambda match: values[match[1]], prompt)


def _part(notebook: str, file: str, text: str) -> _Part:
    whole = frames.ai_memo_file(notebook, f"{file_note(file)}\n{text}")
    return _Part(whole, reference_tokens(whole))


def _batches(parts: Sequence[_Part], limit: int) -> list[list[_Part]]:
    """Whole files packed in order; one that is over the limit is a batch by itself."""
    batches: list[list[_Part]] = []
    room = 0
    for part in parts:
        if not batches or part.tokens > room:
            batches.append([])
            room = limit
        batches[-1].append(part)
        room -= part.tokens
    return batches
