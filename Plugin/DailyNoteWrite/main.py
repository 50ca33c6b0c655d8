"""DailyNoteWrite: stores one diary note (vcp-core 4.11, 5.6; memory.md 1.2 to 1.5).

One JSON object on stdin, one on stdout. Exit code 1 when the note could not be stored.
"""

from __future__ import annotations

import json
import sys


def answer(fields: dict[str, str]) -> None:
    """Print the one answer in UTF-8, whatever the system's code page is (P44)."""
    text = json.dumps(fields, ensure_ascii=False) + "\n"
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def fail(message: str) -> int:
    """Answer with an error; the text stands in both fields that readers of plugin answers know."""
    answer({"status": "error", "message": message, "error": message})
    return 1


def main() -> int:
    """Run one call; returns the exit code."""
    try:
        from daily_note.writing import write

        from app.memory.diary_files import DiaryError
    except ImportError as error:
        return fail(
            f"DailyNoteWrite 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"DailyNoteWrite must be run by the interpreter that runs the server ({error.name} cannot be imported)"
        )
    try:
        answer({"status": "success", **write(sys.stdin.buffer)})
    except DiaryError as error:
        return fail(error.message)
    except UnicodeEncodeError as error:
        return fail(
            f"系统编码写不出这个文件名（{error.object[error.start : error.end]!r}），请设置 PYTHONUTF8=1 / "
            f"the system's encoding cannot write this file name ({error.encoding}): set PYTHONUTF8=1"
        )
    except OSError as error:
        return fail(f"日记没有保存：{error} / the diary was not saved: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
