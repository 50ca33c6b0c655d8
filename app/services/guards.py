"""Builds the guards that the core brings."""

from __future__ import annotations

import time
import uuid

from app.extend import Guard
from app.schedule.intake import Intake
from app.schedule.timely import TimelyContactGuard
from app.services.in_force import InForce
from app.tools.auth_code import AuthCode
from app.tools.guard import PasswordGuard


def guards_of_the_core(in_force: InForce, auth_code: AuthCode, intake: Intake) -> tuple[Guard, ...]:
    """First who asks for the code of the hour (D30), then who puts off calls that carry ``timely_contact``."""
    password = PasswordGuard(
        auth_code,
        enabled=lambda: in_force.settings.vcp_tool_code,
        everywhere=lambda: in_force.settings.vcp_tool_code_everywhere,
    )
    timely = TimelyContactGuard(intake, clock=time.time, zone=in_force.zone, new_uuid=lambda: str(uuid.uuid4()))
    return password, timely
