"""The texts that tell a model how to call a tool (3.5)."""

from __future__ import annotations

from collections.abc import Iterable

from app.extend import ToolCommand, ToolSpec
from app.protocol.prompt_texts import NO_TOOLS, TOOL_SEPARATOR


def describe(spec: ToolSpec) -> str | None:
    """All described commands of a tool, joined by blank lines; None when no command has a description."""
    texts = [_described(spec, command) for command in spec.commands if command.description]
    return "\n\n".join(texts) or None


def describe_all(specs: Iterable[ToolSpec]) -> str:
    """The descriptions of all tools in the given order, or the text that says there are none (P60)."""
    return TOOL_SEPARATOR.join(text for spec in specs if (text := describe(spec))) or NO_TOOLS


def _described(spec: ToolSpec, command: ToolCommand) -> str:
    lines = [f"- {spec.display} ({spec.name}) - 命令: {command.command or 'N/A'}:", *_indented(command.description)]
    if command.example:
        lines += ["  调用示例:", *_indented(command.example)]
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.split("\n")]
