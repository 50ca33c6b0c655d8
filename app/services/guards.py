"""Builds the guards that the core brings."""

from __future__ import annotations

from app.services.in_force import InForce
from app.tools.auth_code import AuthCode
from app.tools.guard import PasswordGuard


def password_guard(in_force: InForce, auth_code: AuthCode) -> PasswordGuard:
    """The guard that asks for the code of the hour (D30)."""
    return PasswordGuard(
        auth_code,
        enabled=lambda: in_force.settings.vcp_tool_code,
        everywhere=lambda: in_force.settings.vcp_tool_code_everywhere,
    )
