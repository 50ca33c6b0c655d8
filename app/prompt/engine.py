"""The prompt engine: messages in, expanded messages and where every part of them came from out (3.1, 3.2, D31)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.errors import BadRequestError, both
from app.extend import Clock, Json, Message, Piece, PlaceholderSource, PromptContext, ToolSpec, Trust
from app.prompt.agents import AgentBook, AgentExpansion
from app.prompt.dates import Dates
from app.prompt.detectors import detect
from app.prompt.limits import Budget
from app.prompt.pieces import NOT_DATA, PromptText
from app.prompt.scope import SYSTEM, Scope, folded_role, is_note, rules_for
from app.prompt.settings import PromptSettings
from app.prompt.sources import Slot, put_in_data
from app.prompt.tools import FurtherTexts, ToolDescriptions, no_further_texts
from app.prompt.variables import VariableFiles, Variables
from app.protocol.prompt_texts import SHOW_BASE64

PORT_OR_KEY = re.compile(r"\{\{(Port|Image_Key)\}\}")

Publish = Callable[[str, int, int], None]
"""Told after each phase: its name, the number of pieces before and after."""


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """Where the text of one message (``part`` None) or of one of its content parts came from."""

    part: int | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ExpandedPrompt:
    """The result: the finished messages, and the texts in them with their pieces.

    ``media`` is false when the conversation asked for its media to be left alone (3.1 step 1). ``attached`` are parts
    that sources want to see in the last user message, once other media have been dealt with.
    """

    messages: list[Message]
    slots: Sequence[Slot]
    media: bool
    attached: tuple[Json, ...] = ()

    @property
    def origins(self) -> tuple[tuple[TextOrigin, ...], ...]:
        """One tuple for each message, empty where a message has no text; put together when somebody asks."""
        return _origins(len(self.messages), self.slots)


class PromptEngine:
    """Expands conversations under one configuration; safe to use for many requests at a time."""

    def __init__(
        self,
        settings: PromptSettings,
        agents: AgentBook,
        files: VariableFiles,
        tools: Callable[[], Mapping[str, ToolSpec]],
        sources: Sequence[PlaceholderSource] = (),
        clock: Clock = time.time,
        further_tools: Callable[[], FurtherTexts] = lambda: no_further_texts,
    ) -> None:
        self._settings = settings
        self._agents = agents
        self._variables = Variables(settings, files)
        self._tools = tools
        self._further_tools = further_tools
        self._before = tuple(source for source in sources if not source.after_detectors)
        self._after = tuple(source for source in sources if source.after_detectors)
        self._clock = clock

    async def expand(
        self,
        messages: Sequence[Message],
        model: str,
        *,
        round: int = 1,
        publish: Publish | None = None,
        turn_id: str = "",
    ) -> ExpandedPrompt:
        """Expand a conversation for ``model`` (after redirection); ``messages`` is not changed.

        Order: the operator's text; then the data of all sources together; then detectors over the finished text, unless
        ``detect_last`` does it; then the sources that come after detectors. Raises PromptLimitError, and
        BadRequestError for messages that are no objects (D10).
        """
        opened, media = _without_media_switch(messages)
        slots = list(_slots(opened))
        budget = Budget(self._settings.limits)
        context = PromptContext(model, tuple(opened), round, turn_id)
        count = _Count(slots, publish)

        templates = self._templates(slots, model, budget)
        if templates:
            tools = ToolDescriptions(self._tools(), self._is_filled, self._further_tools())
            await asyncio.to_thread(self._expand_operator_text, templates, tools)
        count.done("operator_text")
        attached = await put_in_data(slots, self._before, context, budget, self._settings.limits)
        count.done("data")
        if not self._settings.detectors_last:
            self._detect(slots, budget)
            count.done("detectors")
        attached += await put_in_data(slots, self._after, context, budget, self._settings.limits)
        count.done("after_detectors")
        return ExpandedPrompt(_closed(opened, slots), slots, media, tuple(attached))

    async def operator_texts(self, messages: Sequence[Message], model: str) -> list[str]:
        """The texts in which a system message's placeholders count, expanded without any data; for explanations."""
        opened, _ = _without_media_switch(messages)
        slots = list(_slots(opened))
        templates = self._templates(slots, model, Budget(self._settings.limits))
        if templates:
            tools = ToolDescriptions(self._tools(), self._is_filled, self._further_tools())
            await asyncio.to_thread(self._expand_operator_text, templates, tools)
        return [text for slot in slots if slot.role == SYSTEM or slot.noted for text in slot.text.texts(NOT_DATA)]

    def detect_last(self, messages: Sequence[Message], publish: Publish | None = None) -> list[Message]:
        """Messages that preprocessors have finished, with detectors applied where the settings place them here (3.12).

        They see everything then, background results too: only whole texts are left. Raises PromptLimitError.
        """
        if not self._settings.detectors_last:
            return list(messages)
        slots = _slots(messages)
        count = _Count(slots, publish)
        self._detect(slots, Budget(self._settings.limits))
        count.done("detectors")
        return _closed(messages, slots)

    def _detect(self, slots: Sequence[Slot], budget: Budget) -> None:
        for slot in slots:
            if slot.role == SYSTEM:
                slot.text = detect(slot.text, self._settings.detectors, budget)
            slot.text = detect(slot.text, self._settings.super_detectors, budget)

    def _templates(self, slots: Sequence[Slot], model: str, budget: Budget) -> list[tuple[Slot, Scope]]:
        """The texts that have something to expand and whose role allows it."""
        templates: list[tuple[Slot, Scope]] = []
        for slot in slots:
            text = slot.text.join()
            rules = rules_for(slot.role, text, agents_in_all_roles=self._settings.expand_agents_in_all_roles)
            if (rules.agents or rules.sar or rules.system) and ("{{" in text or "<<" in text):
                templates.append((slot, Scope(rules, model, budget)))
        return templates

    def _is_filled(self, placeholder: str) -> bool:
        """Whether a source of data has this placeholder for its own."""
        return any(source.pattern.fullmatch(placeholder) for source in (*self._before, *self._after))

    def _expand_operator_text(self, templates: Sequence[tuple[Slot, Scope]], tools: ToolDescriptions) -> None:
        """Runs in a thread: it reads files, and long prompts must not hold up other requests."""
        agents = AgentExpansion(self._agents)
        dates = Dates(self._settings.zone, self._clock)
        for slot, scope in templates:
            text = self._expand_templates(slot.text, scope, agents, ())
            if scope.rules.system:
                text = dates.expand(text, scope.budget)
                text = tools.expand(text, scope.budget)
                text = self._expand_port_and_key(text, scope.budget)
            slot.text = text

    def _expand_templates(
        self, text: PromptText, scope: Scope, agents: AgentExpansion, stack: tuple[str, ...]
    ) -> PromptText:
        """Agents, then variables; an agent's own text goes through both before it is put in (3.2 phase A)."""
        if scope.rules.agents:
            text = agents.expand(
                text, scope, stack, lambda inner, deeper: self._expand_templates(inner, scope, agents, deeper)
            )
        return self._variables.expand(text, scope, stack)

    def _expand_port_and_key(self, text: PromptText, budget: Budget) -> PromptText:
        port = self._settings.port
        values = {"Port": "" if port is None else str(port), "Image_Key": self._settings.image_key}

        def resolve(match: re.Match[str]) -> tuple[Piece, ...] | None:
            name = match[1]
            if not values[name]:
                return None
            pieces = (Piece(values[name], name, Trust.OPERATOR),)
            budget.spend(name, pieces)
            return pieces

        return text.replace(PORT_OR_KEY, resolve, NOT_DATA)


class _Count:
    """Reports how many pieces each phase left."""

    def __init__(self, slots: Sequence[Slot], publish: Publish | None) -> None:
        self._slots = slots
        self._publish = publish
        self._before = len(slots)

    def done(self, phase: str) -> None:
        if self._publish is not None:
            after = sum([len(slot.text.pieces) for slot in self._slots])  # a list: it is short, and quicker
            self._publish(phase, self._before, after)
            self._before = after


def _text_of(part: object) -> str | None:
    """The text of a text part, else None."""
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        text: str = part["text"]
        return text
    return None


def _slots(messages: Sequence[Message]) -> list[Slot]:
    slots: list[Slot] = []
    for index, message in enumerate(messages):
        role = folded_role(message.get("role"))
        content = message.get("content")
        texts = (
            [(None, content)]
            if isinstance(content, str)
            else [(number, _text_of(part)) for number, part in enumerate(content)]
            if isinstance(content, list)
            else []
        )
        slots += [
            Slot(index, number, role, PromptText.of(text, "message", Trust.MESSAGE), is_note(role, text))
            for number, text in texts
            if text
        ]
    return slots


def _without_media_switch(messages: Sequence[Message]) -> tuple[list[Message], bool]:
    """Copies of the messages, and whether media is to be translated: the first switch found is taken out (H21)."""
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise BadRequestError(both(f"messages[{number}] 不是对象", f"messages[{number}] is not an object"))
    copies = [dict(message) for message in messages]
    for message in copies:
        content = message.get("content")
        if folded_role(message.get("role")) not in (SYSTEM, "user"):
            continue
        if isinstance(content, str) and SHOW_BASE64 in content:
            message["content"] = content.replace(SHOW_BASE64, "")
            return copies, False
        if isinstance(content, list) and any(SHOW_BASE64 in (_text_of(part) or "") for part in content):
            message["content"] = [
                {**part, "text": text.replace(SHOW_BASE64, "")} if (text := _text_of(part)) else part
                for part in content
            ]
            return copies, False
    return copies, True


def _closed(messages: Sequence[Message], slots: Sequence[Slot]) -> list[Message]:
    """New messages with the finished texts in place; everything else in them is as it was."""
    closed = [dict(message) for message in messages]
    lists: set[int] = set()
    for slot in slots:
        message = closed[slot.message]
        if slot.part is None:
            message["content"] = slot.text.join()
            continue
        if slot.message not in lists:
            lists.add(slot.message)
            message["content"] = list(message["content"])
        message["content"][slot.part] = {**message["content"][slot.part], "text": slot.text.join()}
    return closed


def _origins(count: int, slots: Sequence[Slot]) -> tuple[tuple[TextOrigin, ...], ...]:
    origins: list[list[TextOrigin]] = [[] for _ in range(count)]
    for slot in slots:
        origins[slot.message].append(TextOrigin(slot.part, slot.text.pieces))
    return tuple(tuple(of_message) for of_message in origins)
