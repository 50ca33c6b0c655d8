"""The call that a task stands for, as it goes to the router when it is due (spec 7.1, 7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

from app.extend import Json, ToolCall, ToolSpec
from app.protocol.markers import AGENT_ASSISTANT, AGENT_PROMPT, KEY_MAID, KEY_TIMED_CALL, timed_prompt
from app.schedule.task import Task
from app.schedule.timely import without_timely_contact
from app.schedule.times import local_time, spoken_time


def call_of(task: Task, spec: ToolSpec | None, call_id: str, zone: tzinfo) -> ToolCall:
    """The arguments pass as given (D39), with three exceptions.

    A ``timely_contact`` is left out, for the time has come; an AgentAssistant is told in its prompt when it was to be
    called (S5); tools that take it get ``__vcp_timed_call``.
    """
    arguments = without_timely_contact(task.arguments)
    prompt = arguments.get(AGENT_PROMPT)
    if task.tool.partition(".")[0] == AGENT_ASSISTANT and isinstance(prompt, str):
        arguments[AGENT_PROMPT] = timed_prompt(spoken_time(task.due, zone), prompt)
    if spec is not None and _takes_meta(spec):
        arguments[KEY_TIMED_CALL] = {
            "taskId": task.id,
            "scheduledLocalTime": local_time(task.due, zone),
            "requestor": task.requestor,
        }
    maid = arguments.get(KEY_MAID)
    return ToolCall(
        id=call_id, tool=task.tool, arguments=arguments, maid=maid if isinstance(maid, str) and maid else None
    )


def _takes_meta(spec: ToolSpec) -> bool:
    """Whether an argument that no caller wrote does no harm: not where a schema says all that may come."""
    schemas = [command.parameters for command in spec.commands if command.parameters is not None]
    return all(_allows(schema) for schema in schemas)


def _allows(schema: Mapping[str, Json]) -> bool:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and KEY_TIMED_CALL in properties:
        return True
    return schema.get("additionalProperties") is True
