"""The texts that tell a model how to call a tool (3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import orjson

from app.extend import LOCAL, Json, ToolCommand, ToolSpec
from app.tools.schemas.text import example_call, parameter_lines

DESCRIPTION_CHARS = 8000
"""Of the description of a tool whose arguments are described from its schema."""

KEPT_TEXTS = 2000
KEPT_BYTES = 32 * 1024
"""How many texts are kept, and of how large a schema."""


def describe(spec: ToolSpec) -> str | None:
    """All described commands of a tool, joined by blank lines; None when no command has a description.

    A command that brings a tool name stands under it, as a tool that needs no command (D69). What a plugin of this
    machine says of itself stands as it is. A command from elsewhere that has a schema and no example was not written
    for marked calls, such as a tool of an MCP server: its arguments and an example are made from the schema.
    """
    texts = [_described(spec, command) for command in spec.commands if command.description or _is_bare(spec, command)]
    return "\n\n".join(texts) or None


def _described(spec: ToolSpec, command: ToolCommand) -> str:
    name, word = (command.tool_name, "") if command.tool_name else (spec.name, command.command)
    description, example = command.description, command.example
    if _is_bare(spec, command) and command.parameters is not None:
        about, example = _of_schema(command.parameters, name, word)
        description = "\n".join((description[:DESCRIPTION_CHARS].strip() or spec.display, *about))
    lines = [f"- {spec.display} ({name}) - 命令: {word or 'N/A'}:", *_indented(description)]
    if example:
        lines += ["  调用示例:", *_indented(example)]
    return "\n".join(lines)


def _is_bare(spec: ToolSpec, command: ToolCommand) -> bool:
    """Whether a command needs its arguments described."""
    return spec.origin != LOCAL and command.parameters is not None and not command.example


def _of_schema(schema: Mapping[str, Json], name: str, word: str) -> tuple[tuple[str, ...], str]:
    """The lines about the arguments and the example; kept for the next prompt, as there may be a thousand tools."""
    try:
        written = orjson.dumps(schema, default=dict)
    except TypeError:  # such as numbers that are too long for the library
        written = b""
    if not 0 < len(written) <= KEPT_BYTES:
        return tuple(parameter_lines(schema)), example_call(name, schema, word)
    return _kept(written, name, word)


@lru_cache(maxsize=KEPT_TEXTS)
def _kept(written: bytes, name: str, word: str) -> tuple[tuple[str, ...], str]:
    schema = orjson.loads(written)
    return tuple(parameter_lines(schema)), example_call(name, schema, word)


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.split("\n")]
