"""The agents of AgentAssistant in its ``config.env``: read, and written so that every reader reads the same (7.5, 8.2).

``AGENT_<BASE>_MODEL_ID`` and ``_CHINESE_NAME`` make an agent; base names are upper case: others load nothing (D67).

The grammar of env files gives a backslash before a quote back as it is written, but editors have written ``\\"`` for a
quote (B44). So values are written without such a pair wherever the grammar has another way, and a value whose quotes
all have a backslash is read as one that was written by those editors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.config import dotenv
from app.errors import BadRequestError, both

ROUNDS, HOURS, EVERYBODY = (
    "AGENT_ASSISTANT_MAX_HISTORY_ROUNDS",
    "AGENT_ASSISTANT_CONTEXT_TTL_HOURS",
    "AGENT_ALL_SYSTEM_PROMPT",
)
DEFAULT_ROUNDS = 7
DEFAULT_HOURS = 24
DEFAULT_TOKENS = 40_000
DEFAULT_TEMPERATURE = 0.7

MAX_AGENTS = 500
MAX_TEXT_CHARS = 1_000_000
MAX_NAME_CHARS = 100

_FIELD = re.compile(
    r"AGENT_([A-Za-z0-9_.\-]+)_(MODEL_ID|CHINESE_NAME|SYSTEM_PROMPT|MAX_OUTPUT_TOKENS|TEMPERATURE|DESCRIPTION)"
)
_NOT_BASE = re.compile(r"[^A-Z0-9_]+")
_RESERVED = frozenset({"ALL"})
"""Base names whose keys would be those that hold for all agents."""

_BARE_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')
_ESCAPED = re.compile(r'\\([\\"nr])')
_MEANT: Mapping[str, str] = {"\\": "\\", '"': '"', "n": "\n", "r": "\r"}


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """One agent; ``base`` is upper case, empty for one whose base name is to be derived from its name."""

    base: str
    name: str
    model: str
    system_prompt: str = ""
    max_output_tokens: int = DEFAULT_TOKENS
    temperature: float = DEFAULT_TEMPERATURE
    description: str = ""


@dataclass(frozen=True, slots=True)
class AgentDefinitions:
    """All agents in the order of the file, and what holds for all of them."""

    max_history_rounds: int = DEFAULT_ROUNDS
    context_ttl_hours: float = DEFAULT_HOURS
    global_system_prompt: str = ""
    agents: tuple[AgentDefinition, ...] = field(default=())


def agent_value(value: str) -> str:
    """A value of this file as its writer meant it: ``\\"`` where every quote has a backslash is a quote (B44)."""
    if '\\"' not in value or _BARE_QUOTE.search(value):
        return value
    return _ESCAPED.sub(lambda match: _MEANT[match[1]], value)


def read_definitions(text: str) -> AgentDefinitions:
    """The agents of a file's text; numbers that cannot be read are the defaults, entries without model or name none."""
    values = {key: agent_value(value) for key, value in dotenv.parse_values(text).items()}
    found: dict[str, dict[str, str]] = {}
    for key, value in values.items():
        match = _FIELD.fullmatch(key)
        if match is not None and key != EVERYBODY:
            found.setdefault(match[1].upper(), {}).setdefault(match[2], value)
    agents = tuple(
        AgentDefinition(
            base,
            given["CHINESE_NAME"],
            given["MODEL_ID"],
            given.get("SYSTEM_PROMPT", ""),
            int(number(given.get("MAX_OUTPUT_TOKENS", ""), DEFAULT_TOKENS)),
            number(given.get("TEMPERATURE", ""), DEFAULT_TEMPERATURE),
            given.get("DESCRIPTION", ""),
        )
        for base, given in found.items()
        if given.get("CHINESE_NAME") and given.get("MODEL_ID")
    )
    return AgentDefinitions(
        int(number(values.get(ROUNDS, ""), DEFAULT_ROUNDS)),
        number(values.get(HOURS, ""), DEFAULT_HOURS),
        values.get(EVERYBODY, ""),
        agents,
    )


def write_definitions(text: str, definitions: AgentDefinitions) -> str:
    """The file's text with these agents instead of its own.

    Lines that are none of an agent's keys stay as they are; the agents follow below them. Agents without a name or a
    model are left out. Raises BadRequestError for a value that an env file has no way to write.
    """
    kept = _without_agents(text)
    lines = [
        f"{ROUNDS}={definitions.max_history_rounds}",
        f"{HOURS}={_number_text(definitions.context_ttl_hours)}",
        *_lines({EVERYBODY: definitions.global_system_prompt}),
    ]
    for agent in with_bases(definitions.agents):
        key = f"AGENT_{agent.base}_"
        texts = {f"{key}MODEL_ID": agent.model, f"{key}CHINESE_NAME": agent.name}
        further = {f"{key}SYSTEM_PROMPT": agent.system_prompt, f"{key}DESCRIPTION": agent.description}
        lines += [
            "",
            *_lines(texts),
            *_lines(further),
            f"{key}MAX_OUTPUT_TOKENS={agent.max_output_tokens}",
            f"{key}TEMPERATURE={_number_text(agent.temperature)}",
        ]
    written = "\n".join([*kept, *([""] if kept else []), *lines]) + "\n"
    wanted = _without_bases(replace(definitions, agents=usable(definitions)))
    if _without_bases(read_definitions(written)) != wanted or _others(written) != _others(text):
        # A line that stays has a quote that nobody closes, and the agents would be inside of it.
        raise BadRequestError(
            both(
                "文件中有未闭合的引号，无法在其后写入 Agent，请先修正",
                "a quote in the file is never closed, so nothing can be written below it; mend that first",
            )
        )
    return written


def usable(definitions: AgentDefinitions) -> tuple[AgentDefinition, ...]:
    """The agents that have a name and a model."""
    return tuple(agent for agent in definitions.agents if agent.name and agent.model)


def with_bases(agents: Iterable[AgentDefinition]) -> list[AgentDefinition]:
    """Usable agents, each with a base name of its own: the given one, or the ASCII part of the name, or ``AGENT``."""
    taken: set[str] = set(_RESERVED)
    named: list[AgentDefinition] = []
    for agent in agents:
        if not (agent.name and agent.model):
            continue
        stem = _base(agent.base) or _base(agent.name) or "AGENT"
        base = stem
        number = 1
        while base in taken:
            number += 1
            base = f"{stem}_{number}"
        taken.add(base)
        named.append(replace(agent, base=base))
    return named


def number(text: str, default: float) -> float:
    """A number of an env file from 0 to a billion; the default for everything else."""
    try:
        value = float(text.strip())
    except ValueError:
        return default
    return value if 0 <= value <= 1e9 else default


def _base(text: str) -> str:
    return _NOT_BASE.sub("_", text.upper()).strip("_")[:40] if any(c.isascii() and c.isalnum() for c in text) else ""


def _without_agents(text: str) -> list[str]:
    """The lines that stay, without blank ones at the end. A value of several lines goes with all of them."""
    text = dotenv.with_plain_ends(text.removeprefix("\ufeff"))
    lines = text.split("\n")
    gone: set[int] = set()
    for found in dotenv.assignments(text):
        if _is_ours(found.entry.key):
            first = found.entry.line
            gone.update(range(first, first + text.count("\n", found.start, found.ends) + 1))
    kept = [line for place, line in enumerate(lines, 1) if place not in gone]
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


def _others(text: str) -> Mapping[str, str]:
    """What the file says beside agents."""
    values = dotenv.parse_values(text.removeprefix("\ufeff"))
    return {key: value for key, value in values.items() if not _is_ours(key)}


def _is_ours(key: str) -> bool:
    return key in (ROUNDS, HOURS, EVERYBODY) or _FIELD.fullmatch(key) is not None


def _lines(values: Mapping[str, str]) -> Sequence[str]:
    """A line for each value that is not empty."""
    return [f"{key}={_quoted(key, value)}" for key, value in values.items() if value]


def _quoted(key: str, value: str) -> str:
    plain = '"' + value.replace("\r", "\\r").replace("\n", "\\n") + '"'
    escaped = '"' + re.sub(r'([\\"])', r"\\\1", value).replace("\r", "\\r").replace("\n", "\\n") + '"'
    simple = plain if not any(mark in value for mark in '"\\') else None
    for written in (simple, dotenv.quote(value), escaped):
        if written is not None and _reads_as(written, value):
            return written
    raise BadRequestError(
        both(
            f"{key} 的文字同时含有三种引号、# 和反斜杠，env 文件无法表示",
            f"the text of {key} mixes all kinds of quotes, # and backslashes; an env file has no way to write that",
        )
    )


def _reads_as(written: str, value: str) -> bool:
    for below in ("", '\n"', "\n'", "\n`"):
        entries = dotenv.parse(f"K={written}{below}")
        if len(entries) != 1 or agent_value(entries[0].value) != value:
            return False
    return True


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _without_bases(definitions: AgentDefinitions) -> AgentDefinitions:
    return replace(definitions, agents=tuple(replace(agent, base="") for agent in definitions.agents))
