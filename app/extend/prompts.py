"""Prompts: pieces of text with a trust, placeholders that data fills, steps that change a whole body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from app.extend.values import Body, Json, Message

SYSTEM_NOTE = "system_note"
"""Stands among the roles of a placeholder source for user texts that are notes of a client (2.1, D7)."""


class Trust(StrEnum):
    """What may be done with a piece of prompt text (D9, D31)."""

    OPERATOR = "operator"  # written by the operator: expanded
    MESSAGE = "message"  # a message's own text: only the steps its role allows
    DATA = "data"  # diaries, tools, nodes: inserted literally, never expanded


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of prompt text that has one source (for instance ``agent:Nova``, ``TarSysPrompt``, ``diary:公共``)."""

    text: str
    source: str
    trust: Trust


@dataclass(frozen=True, slots=True)
class Found:
    """A placeholder that a source recognised; ``groups`` are those of its pattern."""

    text: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filling:
    """More than a plain text for a placeholder: ``text`` goes to its first place, ``again`` to further ones.

    ``label`` names the piece behind the source's name. ``attached`` are content parts for the last user message, such
    as pictures that the text mentions.
    """

    text: str
    again: str
    label: str = ""
    attached: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptContext:
    """The conversation that placeholders are resolved for. ``round`` counts from 1; ``turn_id`` may be unknown."""

    model: str
    messages: Sequence[Message]
    round: int = 1
    turn_id: str = ""


class PlaceholderSource(Protocol):
    """Resolves one family of placeholders with data: static values, diaries, emoji lists, recall, background results.

    ``pattern`` is searched in pieces that are not data, of messages whose role is in ``roles``, after all operator text
    has been expanded; ``developer`` counts as ``system``, and ``SYSTEM_NOTE`` among the roles adds user texts that
    begin with ``[系统``. ``trust`` is that of the inserted text. Sources with
    ``after_detectors`` come last (D31). The fields may differ from turn to turn, but not within one.
    """

    name: str
    roles: frozenset[str]
    trust: Trust
    after_detectors: bool

    @property
    def pattern(self) -> re.Pattern[str]:
        """What finds its placeholders; a plain attribute will do."""
        ...

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str | Filling]:
        """The text for each ``Found.text``; what is missing from the answer stays as it was written.

        Called at most once a turn with all distinct placeholders, under a deadline.
        """
        ...


@runtime_checkable
class PatientSource(Protocol):
    """A placeholder source that has a time of its own, because a model works for it."""

    @property
    def seconds(self) -> float:
        """Longest time for ``resolve``, of now."""
        ...


class Stage(StrEnum):
    """When a preprocessor runs."""

    BEFORE_VARIABLES = "before_variables"
    MEDIA = "media"
    AFTER = "after"
    BEFORE_EACH_ROUND = "before_each_round"


class Preprocessor(Protocol):
    """Changes the whole request body at its stage."""

    name: str
    stage: Stage

    async def process(self, body: Body, context: PromptContext) -> Body:
        """The body to go on with; an error skips this preprocessor."""
        ...
