"""ThoughtClusterManager: creates and edits files of thought clusters (memory.md 1.7).

One JSON object on stdin, one on stdout. Exit code 1 when not every step succeeded.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime


def main() -> int:
    """Run one call; returns the exit code."""
    try:
        from app.memory.diaries.calls import answer_call
        from app.memory.diaries.clusters import run_clusters
        from app.memory.diaries.requests import read_settings
    except ImportError as error:
        message = (
            f"ThoughtClusterManager 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"ThoughtClusterManager must be run by the server's own interpreter ({error.name} cannot be imported)"
        )
        # Escaped, for any code page can print that (P44).
        print(json.dumps({"status": "error", "error": message, "message": message}))
        return 1

    def run(arguments: Mapping[str, object]) -> Mapping[str, str]:
        settings = read_settings(os.environ)
        return {"result": run_clusters(arguments, settings.home, settings.root, datetime.now(UTC))}

    return answer_call(run)


if __name__ == "__main__":
    sys.exit(main())
