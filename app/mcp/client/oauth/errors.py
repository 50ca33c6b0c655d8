"""What can go wrong when somebody signs in; messages never hold a token, a code or a secret."""

from __future__ import annotations

import re

from app.errors import VcpError, both

_WORD = re.compile(r"[A-Za-z0-9_.:/-]{1,80}", re.ASCII)


class SignInError(VcpError):
    """Nobody could sign in at an MCP server; the message says why and what to do."""

    status = 502
    code = "mcp_sign_in"


def error_word(value: object) -> str:
    """An error code of OAuth as it may be shown; what is none might be anything, and is not shown."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else "-"


def too_late() -> SignInError:
    """Nobody came in time."""
    return SignInError(both("登录页在时限内没有完成", "nobody completed the sign-in within its time"))
