"""VCPForum: writes, answers and reads posts of the forum (vcp-core 9; memory.md 6.4).

One JSON object on stdin, one on stdout. Exit code 1 when nothing was done.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping


def main() -> int:
    """Run one call; returns the exit code."""
    try:
        from app.memory.diaries.calls import answer_call
        from app.memory.diaries.forum import Forum
        from app.memory.diaries.forum_calls import run_forum
        from app.memory.diaries.forum_pictures import Pictures, picture_address
        from app.memory.diaries.requests import read_settings
    except ImportError as error:
        message = (
            f"VCPForum 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"VCPForum must be run by the server's own interpreter ({error.name} cannot be imported)"
        )
        # Escaped, for any code page can print that (P44).
        print(json.dumps({"status": "error", "error": message, "message": message}))
        return 1

    def run(arguments: Mapping[str, object]) -> Mapping[str, object]:
        settings = read_settings(os.environ)
        pictures = Pictures(settings.home / "image", picture_address(os.environ))
        return run_forum(arguments, settings.home, Forum(settings.home, settings.root), pictures)

    return answer_call(run)


if __name__ == "__main__":
    sys.exit(main())
