"""SemanticGroupEditor: a model looks at semantic groups and changes them (memory.md 5.1)."""

from __future__ import annotations

from app.extend import CallContext, Json, PluginContext, ToolCall
from app.memory.enhance.group_editor import GroupEditor


class Editor:
    """The plugin; a plain method, since it reads and writes files."""

    def __init__(self, context: PluginContext) -> None:
        self._editor = GroupEditor(context.home)

    def call(self, call: ToolCall, _context: CallContext) -> Json:
        """The text for the model."""
        command = {} if call.command is None else {"command": call.command}
        return self._editor.call({**command, **call.arguments})


def create(context: PluginContext) -> Editor:
    """The plugin's object."""
    return Editor(context)
