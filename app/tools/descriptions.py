"""The texts that tell a model how to call a tool (3.5)."""

from __future__ import annotations

from app.extend import ToolCommand, ToolSpec


def describe(spec: ToolSpec) -> str | None:
    """All described commands of a tool, joined by blank lines; None when no command has a description.

    A command that brings a tool name stands under it, as a tool that needs no command (D69).
    """
    texts = [_described(spec, command) for command in spec.commands if command.description]
    return "\n\n".join(texts) or None


def _described(spec: ToolSpec, command: ToolCommand) -> str:
    name, word = (command.tool_name, "") if command.tool_name else (spec.name, command.command)
    lines = [f"- {spec.display} ({name}) - 命令: {word or 'N/A'}:", *_indented(command.description)]
    if command.example:
        lines += ["  调用示例:", *_indented(command.example)]
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.split("\n")]
