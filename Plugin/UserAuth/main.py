"""UserAuth: makes a new auth code for the installation (vcp-core 7.3; B11). The code itself is never printed."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def say(text: str, *, error: bool = False) -> None:
    """One line in UTF-8, whatever the system's code page is (P44)."""
    stream = sys.stderr if error else sys.stdout
    stream.buffer.write(text.encode("utf-8", "replace") + b"\n")
    stream.buffer.flush()


def main() -> int:
    """Write one code; returns the exit code."""
    try:
        from app.tools.auth_code import write_auth_code
    except ImportError as error:
        say(
            f"UserAuth 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"UserAuth must be run by the interpreter that runs the server ({error.name} cannot be imported)",
            error=True,
        )
        return 1
    home = os.environ.get("PROJECT_BASE_PATH", "")
    if not Path(home).is_absolute():
        say("未设置 PROJECT_BASE_PATH / PROJECT_BASE_PATH is not set", error=True)
        return 1
    try:
        write_auth_code(Path(home))
    except OSError as error:
        say(f"验证码没有写入：{error} / the auth code was not written: {error}", error=True)
        return 1
    say("管理员验证码已更新，请向用户询问。/ The auth code has been renewed; ask the user for it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
