"""ForumLister: the list of the forum's posts as text, for ``{{VCPForumLister}}`` (vcp-core 9; memory.md 6.4)."""

from __future__ import annotations

import os
import sys


def say(text: str, *, error: bool = False) -> None:
    """Text in UTF-8, whatever the system's code page is (P44)."""
    stream = sys.stderr if error else sys.stdout
    stream.buffer.write(text.encode("utf-8", "replace") + b"\n")
    stream.buffer.flush()


def main() -> int:
    """Print the list; returns the exit code."""
    try:
        from app.memory.diaries.files import DiaryError
        from app.memory.diaries.forum import Forum
        from app.memory.diaries.forum_calls import forum_list
        from app.memory.diaries.requests import read_settings
    except ImportError as error:
        say(
            f"ForumLister 需要用运行服务器的 Python 解释器启动（缺少 {error.name}）/ "
            f"ForumLister must be run by the interpreter that runs the server ({error.name} cannot be imported)",
            error=True,
        )
        return 1
    try:
        settings = read_settings(os.environ)
        say(forum_list(Forum(settings.home, settings.root).posts(), settings.zone))
    except (DiaryError, OSError) as error:
        say(f"无法列出论坛帖子：{error} / the forum cannot be listed: {error}", error=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
