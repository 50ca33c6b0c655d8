"""From a client's body to the body that goes upstream: the ordered list of phases."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.chat.payload import checked_messages, with_attached
from app.extend import (
    Body,
    Dump,
    EventSink,
    ExpandedText,
    PhaseDone,
    Preprocessor,
    PromptContext,
    PromptExpanded,
    Stage,
    no_dump,
)
from app.prompt.engine import ExpandedPrompt, PromptEngine
from app.protocol import dump_names

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The body to send, and the prompt that it came from: its ``origins`` tell who put in which part."""

    body: Body
    prompt: ExpandedPrompt


class Preparation:
    """Runs the phases of spec 3.1 in order: preprocessors before variables, expansion, media, the other ones.

    In the profile ``head`` the expansion leaves its detectors to the end (3.12). ``phases_wanted`` says whether
    anybody hears of the phases of the expansion, which every turn has, ``prompts_wanted`` whether of whole prompts.
    """

    def __init__(
        self,
        engine: PromptEngine,
        preprocessors: Sequence[Preprocessor],
        events: EventSink,
        dump: Dump = no_dump,
        *,
        phases_wanted: Callable[[], bool],
        prompts_wanted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._engine = engine
        self._dump = dump
        self._preprocessors = tuple(preprocessors)
        self._events = events
        self._phases_wanted = phases_wanted
        self._prompts_wanted = prompts_wanted

    def also(self, preprocessors: Sequence[Preprocessor]) -> Preparation:
        """The same with further preprocessors behind those that there are, for one turn."""
        longer = copy.copy(self)
        longer._preprocessors = (*self._preprocessors, *preprocessors)
        return longer

    async def prepare(self, body: Body, model: str, turn_id: str) -> Prepared:
        """Expand the prompt; the client's body stays untouched, unknown fields are kept."""
        self._dump(dump_names.INPUT, body)
        before = body
        body = await self._stage(Stage.BEFORE_VARIABLES, body, model, turn_id)

        def phase_done(name: str, before: int, after: int) -> None:
            self._events.publish(PhaseDone(turn_id, name, before, after))

        publish = phase_done if self._phases_wanted() else None
        expanded = await self._engine.expand(body["messages"], model, publish=publish, turn_id=turn_id)
        body = {**body, "messages": expanded.messages}
        self._dump(dump_names.AFTER_VARIABLES, body)
        if expanded.media:
            body = await self._stage(Stage.MEDIA, body, model, turn_id)
        if expanded.attached:
            body = {**body, "messages": with_attached(body["messages"], expanded.attached)}
        body = await self._stage(Stage.AFTER, body, model, turn_id)
        self._dump(dump_names.AFTER_PREPROCESSORS, body)
        body = {**body, "messages": self._engine.detect_last(body["messages"], publish)}
        self._dump(dump_names.OUTPUT, body)
        if self._prompts_wanted():
            texts = tuple(ExpandedText(slot.message, slot.part, slot.text.pieces) for slot in expanded.slots)
            self._events.publish(PromptExpanded(turn_id, before, texts, tuple(body["messages"])))
        return Prepared(body, expanded)

    async def expanded_text(self, text: str, model: str = "") -> str:
        """A text of the operator's, such as an agent, expanded as that of a system message. Raises PromptLimitError."""
        expanded = await self._engine.expand([{"role": "system", "content": text}], model)
        (message,) = self._engine.detect_last(expanded.messages)
        content: str = message["content"]
        return content

    async def operator_texts(self, body: Body, model: str) -> list[str]:
        """The operator's and the client's system text of a body, expanded without data (``memory explain``)."""
        return await self._engine.operator_texts(checked_messages(body)["messages"], model)

    async def before_round(self, body: Body, model: str, turn_id: str, number: int) -> Body:
        """What is done to the body before each upstream request."""
        return await self._stage(Stage.BEFORE_EACH_ROUND, body, model, turn_id, number)

    async def _stage(self, stage: Stage, body: Body, model: str, turn_id: str, number: int = 1) -> Body:
        for preprocessor in self._preprocessors:
            if preprocessor.stage is not stage:
                continue
            before = len(body["messages"])
            try:
                context = PromptContext(model, body["messages"], number, turn_id)
                body = checked_messages(await preprocessor.process(body, context))
            except asyncio.CancelledError:
                raise
            except Exception:  # a faulty preprocessor is skipped, its input is used (spec 3.1)
                log.exception("preprocessor %s failed and was skipped", preprocessor.name)
            self._events.publish(PhaseDone(turn_id, preprocessor.name, before, len(body["messages"])))
        return body
