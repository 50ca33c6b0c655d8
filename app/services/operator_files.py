"""The JSON files of a home that administrators edit as text."""

from __future__ import annotations

from app.config import approval_rules
from app.config.operator_file import OperatorFile
from app.mcp.client import servers_file
from app.mcp.groups import file as group_file
from app.services.in_force import InForce


def servers_of(in_force: InForce) -> OperatorFile:
    """``mcp_servers.json``."""
    return OperatorFile(
        in_force.home / servers_file.FILE_NAME,
        servers_file.MAX_FILE_BYTES,
        lambda data: servers_file.read_servers(data, in_force.config.environ)[1],
        '{\n  "mcpServers": {}\n}\n',
    )


def groups_of(in_force: InForce) -> OperatorFile:
    """``tool_groups.json``."""
    return OperatorFile(
        in_force.home / group_file.FILE_NAME,
        group_file.MAX_FILE_BYTES,
        lambda data: group_file.read_groups(data)[1],
        '{\n  "groups": {}\n}\n',
    )


def approvals_of(in_force: InForce) -> OperatorFile:
    """``toolApprovalConfig.json``."""
    return OperatorFile(
        in_force.home / approval_rules.FILE_NAME,
        approval_rules.MAX_FILE_BYTES,
        lambda data: approval_rules.read_rules(data)[1],
        '{\n  "enabled": false,\n  "timeoutMinutes": 5,\n  "approveAll": false,\n  "approvalList": []\n}\n',
    )
