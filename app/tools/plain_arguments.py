"""Arguments as a tool reads them: JSON values for typed commands, texts for all others (D39)."""

from __future__ import annotations

from app.extend import Json, ToolCall, ToolSpec
from app.protocol.arguments import to_text


def plain_arguments(spec: ToolSpec, call: ToolCall, *, as_given: bool = False) -> dict[str, Json]:
    """The arguments of a call as the tool gets them.

    Untyped commands get strings, unless the arguments are to pass ``as_given`` (D39). The command that
    the call's name says is passed as the argument ``command`` unless there is one. Raises ValueError for numbers that
    JSON has no words for.
    """
    arguments = dict(call.arguments)
    if call.command is not None:
        arguments.setdefault("command", call.command)
    if as_given or _is_typed(spec, call):
        return arguments
    return {
        name: text
        for name, value in arguments.items()
        if (text := call.texts[name] if name in call.texts else to_text(value)) is not None
    }


def _is_typed(spec: ToolSpec, call: ToolCall) -> bool:
    """Whether the command that is called says ``"typed": true`` (D5)."""
    wanted = call.command or call.arguments.get("command")
    for command in spec.commands:
        if wanted is not None and wanted in (command.id, command.command, command.tool_name):
            return command.typed
    return bool(spec.commands) and all(command.typed for command in spec.commands)
