"""DailyNoteGet: prints all diaries as one JSON object, name to text (vcp-core 9).

The server fills ``{{AllCharacterDiariesData}}`` from the files of now and does not run this; it is there for people and
scripts, and as the description of that placeholder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

DEFAULT_MAX_CHARS = 2_000_000


def fail(text: str) -> int:
    """Complain in UTF-8, whatever the system's code page is (P44)."""
    sys.stderr.buffer.write(text.encode("utf-8", "replace") + b"\n")
    return 1


def longest(settings: Mapping[str, str]) -> int:
    """Most characters of one notebook."""
    written = settings.get("DiaryMaxChars", "")
    return int(written) if written.isascii() and written.isdigit() and len(written) < 20 else DEFAULT_MAX_CHARS


def main() -> int:
    """Print the diaries; returns the exit code."""
    try:
        from app.config.home_folders import notebooks_folder
        from app.prompt.diaries import Notebooks
    except ImportError as error:
        return fail(
            f"DailyNoteGet 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"DailyNoteGet must be run by the interpreter that runs the server ({error.name} cannot be imported)"
        )
    home = os.environ.get("PROJECT_BASE_PATH", "")
    if not Path(home).is_absolute():
        return fail("未设置 PROJECT_BASE_PATH / PROJECT_BASE_PATH is not set")
    root = notebooks_folder(Path(home), os.environ.get("KNOWLEDGEBASE_ROOT_PATH", ""))
    text = Notebooks(root, longest(os.environ)).dump()
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
