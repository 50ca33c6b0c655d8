"""``timely_contact``: any tool at any door, later (spec 7.2, P80; decision D30)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import tzinfo

from app.errors import TaskRefusedError, both
from app.extend import GROUPS, CallContext, Clock, Door, ErrorKind, Json, ToolCall, ToolResult, ToolSpec
from app.protocol.arguments import fold
from app.protocol.markers import KEY_TIMELY_CONTACT, KEY_TOOL_PASSWORD
from app.schedule.intake import Intake
from app.schedule.task import Task
from app.schedule.times import local_time, parse_time, spoken_time
from app.tools.router import prepare_arguments

_TIMELY = fold(KEY_TIMELY_CONTACT)
_PASSWORD = fold(KEY_TOOL_PASSWORD)


class TimelyContactGuard:
    """Puts a call off whose arguments say when it is to run; nothing runs now, and the caller gets a receipt.

    It stands behind the guard that asks for the code: a scheduled call has been checked when the task is made, and the
    code is not kept (D30). The name of the argument is recognised in other spellings, as all reserved names are (D4).
    A blank one means now. Calls that no tool could run are let pass: they get the usual answer at once. So are those of
    tools that only lead to others: what they lead to is put off under its own name, after the rules of this door.
    """

    def __init__(
        self,
        intake: Intake,
        *,
        clock: Clock,
        zone: Callable[[], tzinfo],
        new_uuid: Callable[[], str],
    ) -> None:
        self._intake = intake
        self._clock = clock
        self._zone = zone
        self._new_uuid = new_uuid

    async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
        """None when the call is for now; else the receipt, or why it was not put off."""
        wanted = timely_contact(call.arguments)
        if wanted is None or spec is None or not spec.callable or spec.origin == GROUPS:
            return None
        if context.door is Door.SCHEDULE:
            return None
        zone, now = self._zone(), self._clock()
        try:
            due = parse_time(wanted, zone)
        except ValueError:
            return _refused(
                both(
                    f"没有安排：无法理解 timely_contact 的时间。请写成 2026-01-05-08:30 或 2026-01-05 08:30:00。"
                    f"现在是 {spoken_time(now, zone)}。",
                    f"Not scheduled: timely_contact is no date and time of the calendar. Write it as 2026-01-05-08:30 "
                    f"or 2026-01-05 08:30:00. It is {spoken_time(now, zone)} now.",
                )
            )
        if due <= now:
            return _refused(
                both(
                    f"没有安排：{spoken_time(due, zone)} 已经过去，现在是 {spoken_time(now, zone)}。请给出将来的时间，"
                    f"或去掉 timely_contact 立即运行。",
                    f"Not scheduled: {spoken_time(due, zone)} is past, it is {spoken_time(now, zone)} now. Give a time "
                    "in the future, or leave timely_contact out to run the tool at once.",
                )
            )
        later = _without_time(spec, call)
        task = Task(
            id=f"task-{math.floor(due) * 1000}-{self._new_uuid()}",
            due=math.floor(due),
            tool=call.tool,
            arguments=later.arguments,
            requestor=f"{KEY_TIMELY_CONTACT}: {context.door.value}",
        )
        try:
            await self._intake.take(task)
        except TaskRefusedError as error:
            return ToolResult(error_kind=ErrorKind.LIMIT, message=error.message)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            said = f"{both('没有安排：任务无法保存', 'Not scheduled: the task cannot be stored')}: {reason}"
            return ToolResult(error_kind=ErrorKind.EXECUTION, message=said)
        return receipt(task, now, zone)


def timely_contact(arguments: Mapping[str, Json]) -> Json:
    """What the call says about its time; None when it says nothing. The exact name beats other spellings."""
    found = [value for name, value in arguments.items() if len(name) >= len(_TIMELY) and fold(name) == _TIMELY]
    value = arguments[KEY_TIMELY_CONTACT] if KEY_TIMELY_CONTACT in arguments else found[-1] if found else None
    return None if isinstance(value, str) and not value.strip() else value


def without_timely_contact(arguments: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments without the time, in any spelling."""
    return {name: value for name, value in arguments.items() if fold(name) != _TIMELY}


def _without_time(spec: ToolSpec, call: ToolCall) -> ToolCall:
    """What is to run later: neither time nor code in it, names and values as the tool declares them (D4, D5).

    Values are converted now because a task's file no longer tells which of them came as text.
    """
    arguments = {
        name: value for name, value in without_timely_contact(call.arguments).items() if fold(name) != _PASSWORD
    }
    texts = {name: text for name, text in call.texts.items() if name in arguments}
    return prepare_arguments(spec, replace(call, arguments=arguments, texts=texts))


def _refused(message: str) -> ToolResult:
    return ToolResult(error_kind=ErrorKind.REFUSED, message=message)


def receipt(task: Task, now: float, zone: tzinfo) -> ToolResult:
    """What the caller is told of a task that was stored (7.2)."""
    due = spoken_time(task.due, zone)
    return ToolResult(
        structured={
            "status": "scheduled",
            "message": both(
                f"已安排：工具 {task.tool} 将在 {due} 运行，任务 id 为 {task.id}。现在没有运行，也还没有结果。",
                f"Scheduled: the tool {task.tool} will run at {due}, task id {task.id}. Nothing has run yet, and there "
                "is no result yet.",
            ),
            "tool_name": task.tool,
            "task_id": task.id,
            "scheduled_time": local_time(task.due, zone),
            "current_time": local_time(now, zone),
        }
    )
