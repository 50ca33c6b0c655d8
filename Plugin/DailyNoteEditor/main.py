"""DailyNoteEditor: the older name of DailyNote's ``update`` (memory.md 1.7).

One JSON object on stdin, one on stdout. Exit code 1 when nothing was changed.
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
            f"DailyNoteEditor 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"DailyNoteEditor must be run by the interpreter that runs the server ({error.name} cannot be imported)"
        )
        # Escaped, for any code page can print that (P44).
        print(json.dumps({"status": "error", "error": message, "message": message}))
        return 1
    return answer_call(DiaryCommands("DailyNoteEditor", Path(__file__).resolve().parent).update)


if __name__ == "__main__":
    sys.exit(main())
