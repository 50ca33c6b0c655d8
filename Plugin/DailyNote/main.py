"""DailyNote: creates and edits diary notes for models (vcp-core 9; memory.md 1.6).

One JSON object on stdin, one on stdout. Exit code 1 when nothing was stored or changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    """Run one call; returns the exit code."""
    try:
        from app.memory.diaries.calls import answer_call
        from app.memory.diaries.commands import DiaryCommands
    except ImportError as error:
        message = (
            f"DailyNote 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"DailyNote must be run by the interpreter that runs the server ({error.name} cannot be imported)"
        )
        # Escaped, for any code page can print that (P44).
        print(json.dumps({"status": "error", "error": message, "message": message}))
        return 1
    return answer_call(DiaryCommands("DailyNote", Path(__file__).resolve().parent).run)


if __name__ == "__main__":
    sys.exit(main())
