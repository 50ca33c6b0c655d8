"""Builds what puts tool calls off and runs them when they are due."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.extend import EventSink
from app.schedule.folder import TaskFolder
from app.schedule.intake import Intake
from app.schedule.runner import ScheduleRunner
from app.services.ids import Ids
from app.services.in_force import InForce
from app.services.stopping import Stopping
from app.tools.router import Router


def task_intake(in_force: InForce, folder: TaskFolder, told: Callable[[], None]) -> Intake:
    """Takes tasks and writes them down; ``told`` is called after each."""
    return Intake(folder, zone=in_force.zone, limit=lambda: in_force.settings.schedule_max_pending, told=told)


def schedule_runner(
    in_force: InForce,
    folder: TaskFolder,
    router: Router,
    events: EventSink,
    ids: Ids,
    stopping: Stopping,
) -> ScheduleRunner:
    """Runs tasks when they are due; from the beginning of a stop it begins none."""
    return ScheduleRunner(
        folder,
        router.call,
        router.find_spec,
        events,
        clock=time.time,
        zone=in_force.zone,
        new_id=lambda: ids.new("task"),
        limit=lambda: 0 if stopping.begun else in_force.settings.schedule_max_running,
        keep_days=lambda: in_force.settings.schedule_keep_days,
        grace=stopping.wait,
    )
